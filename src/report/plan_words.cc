#include "report/plan_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/analysis.h"
#include "ops/traits.h"
#include "plan/axes.h"
#include "plan/expert.h"

namespace heddle {
namespace {

bool IsProductNode(const Rule& rule) {
  return std::any_of(rule.work.begin(), rule.work.end(),
                     [](const WorkTerm& term) { return term.contraction; });
}

bool ReadsParameter(const Model& model, const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
    return model.graph.value(id).kind == ValueKind::kParameter;
  });
}

// The kind under which a node is listed. Empty: the node only follows the splits of others.
std::string_view KindOf(const Model& model, NodeId id) {
  const Node& node = model.graph.node(id);
  OpKind kind = TraitsOf(node.op).kind;
  if (kind == OpKind::kAttention) return "attention";
  if (ComputesStatistics(node)) return "norms";
  if (!IsProductNode(model.rules[id.index()])) return "";
  if (kind == OpKind::kConvolution) return "convolutions";
  return ReadsParameter(model, node) ? "linear layers" : "matrix products";
}

// As in "by heads", "by columns and rows, some whole" or "whole".
std::string ByWords(std::vector<std::string> words) {
  bool some_whole = std::erase(words, "-") > 0;
  if (words.empty()) return "whole";
  std::string last = std::move(words.back());
  words.pop_back();
  std::string text = words.empty() ? last : fmt::format("{} and {}", fmt::join(words, ", "), last);
  return fmt::format("by {}{}", text, some_whole ? ", some whole" : "");
}

bool IsLayer(const Model& model, int block) {
  return model.blocks[static_cast<size_t>(block)].chain >= 0;
}

}  // namespace

PlanWords::PlanWords(const Model& model) : model_(model), words_(model) {
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const Rule& rule = model.rules[n];
    flops_.push_back(
        NodeWork(model.graph.nodes[n], rule, model.flow, WholeBlocks(rule)).forward.flops);
  }
}

std::vector<NodeId> PlanWords::HeaviestNodes(const Stage& stage, double* flops) const {
  struct AlikeLayers {
    int first_block = 0;
    double flops = 0;
  };
  std::map<std::pair<int, Strategy>, AlikeLayers> layers;  // key: chain and strategies
  std::vector<NodeId> others;
  double in_layers = 0, outside = 0;
  for (int b = stage.first_block; b < stage.last_block; ++b) {
    const ModelBlock& block = model_.blocks[static_cast<size_t>(b)];
    double work = 0;
    std::pair<int, Strategy> key = {block.chain, {}};
    for (NodeId id : block.nodes) {
      work += flops_[id.index()];
      const Strategy& strategy = stage.strategies[id.index()];
      key.second.insert(key.second.end(), strategy.begin(), strategy.end());
    }
    if (block.chain < 0) {
      outside += work;
      others.insert(others.end(), block.nodes.begin(), block.nodes.end());
      continue;
    }
    in_layers += work;
    layers.try_emplace(std::move(key), AlikeLayers{b, 0}).first->second.flops += work;
  }
  *flops = outside;
  if (layers.empty() || in_layers < outside) return others;
  auto most = std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
    return a.second.flops < b.second.flops;
  });
  *flops = most->second.flops;
  return model_.blocks[static_cast<size_t>(most->second.first_block)].nodes;
}

AxisSplit PlanWords::SplitAlong(const Stage& stage, size_t axis,
                                const std::vector<NodeId>& nodes) const {
  AxisSplit out{stage.mesh.axes[axis], "", false, false};
  constexpr std::string_view kKinds[] = {"attention", "linear layers", "convolutions",
                                         "matrix products", "norms"};
  std::map<std::string_view, std::vector<std::string>> words;  // by kind, without duplicates
  for (NodeId id : nodes) {
    const Strategy& strategy = stage.strategies[id.index()];
    if (strategy.size() <= axis) continue;
    std::string word = words_.Of(id, strategy[axis]);
    out.experts = out.experts || word == "experts";
    bool product = IsProductNode(model_.rules[id.index()]);
    out.sequence = out.sequence || (!product && word == "sequence");
    std::string_view kind = KindOf(model_, id);
    if (kind.empty()) continue;
    std::vector<std::string>& of = words[kind];
    if (std::find(of.begin(), of.end(), word) == of.end()) of.push_back(std::move(word));
  }
  bool same = std::all_of(words.begin(), words.end(), [&](const auto& at) {
    return at.second == words.begin()->second && at.second.size() == 1;
  });
  if (words.empty() || same) {
    bool split = !words.empty() && words.begin()->second.front() != "-";
    out.splits = split ? words.begin()->second.front() : "nothing";
    return out;
  }
  std::vector<std::string> parts;
  for (std::string_view kind : kKinds) {
    auto found = words.find(kind);
    if (found == words.end()) continue;
    parts.push_back(fmt::format("{} {}", kind, ByWords(found->second)));
  }
  out.splits = fmt::format("{}", fmt::join(parts, ", "));
  return out;
}

StageSplits PlanWords::Of(const Plan& plan, size_t stage) const {
  StageSplits out;
  out.stage = stage;
  const Stage& of = plan.stages[stage];
  std::vector<NodeId> nodes = HeaviestNodes(of, &out.flops);
  for (size_t a = 0; a < of.mesh.axes.size(); ++a) out.axes.push_back(SplitAlong(of, a, nodes));
  return out;
}

StageSplits PlanWords::Heaviest(const Plan& plan) const {
  size_t heaviest = 0;
  double most = -1;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    double flops = 0;
    HeaviestNodes(plan.stages[s], &flops);
    if (flops <= most) continue;
    most = flops;
    heaviest = s;
  }
  return Of(plan, heaviest);
}

Degrees DegreesOf(const Plan& plan, const StageSplits& heaviest) {
  Degrees degrees;
  degrees.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  int64_t along_data = 1;  // ways in which experts are split over data axes
  for (const AxisSplit& at : heaviest.axes) {
    const ParallelAxis* known = FindAxis(at.axis.name);
    if (known == nullptr) continue;
    degrees.*known->degree *= at.axis.size;
    if (known->within != nullptr) degrees.*known->within *= at.axis.size;
    bool data = SplitsBatch(known->role) && known->role != AxisRole::kExpert;
    if (data && at.experts) along_data *= at.axis.size;
    for (const AxisModifier& modifier : AllAxisModifiers()) {
      if (modifier.role == known->role && at.sequence) degrees.*modifier.flag = true;
    }
  }
  degrees.ep *= along_data;
  return degrees;
}

std::optional<RecomputePolicy> RecomputationOfLayers(const Model& model, const Plan& plan) {
  std::optional<RecomputePolicy> common;
  bool layered = LayersOf(model) > 0, first = true;
  for (const Stage& stage : plan.stages) {
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      if (layered && !IsLayer(model, b)) continue;
      RecomputePolicy policy = stage.recompute[static_cast<size_t>(b - stage.first_block)];
      if (!first && common != policy) return std::nullopt;
      common = policy;
      first = false;
    }
  }
  return common;
}

std::string MeshInWords(const Plan& plan, const StageSplits& heaviest) {
  std::vector<std::string> axes;
  auto has = [&](std::string_view name) {
    return std::any_of(heaviest.axes.begin(), heaviest.axes.end(),
                       [&](const AxisSplit& at) { return at.axis.name == name; });
  };
  Degrees degrees = DegreesOf(plan, heaviest);
  // Those of data are outermost, the others innermost, and stages come last.
  for (const ParallelAxis* axis : DeviceFactors()) {
    if (axis->role == AxisRole::kReplicatedData && !has(axis->name))
      axes.push_back(fmt::format("{} 1", axis->name));
  }
  for (const AxisSplit& at : heaviest.axes) axes.push_back(ToString(at.axis));
  for (const ParallelAxis* axis : DeviceFactors()) {
    bool stages = axis->role == AxisRole::kPipeline;
    if (axis->role == AxisRole::kReplicatedData || (has(axis->name) && !stages)) continue;
    if (axis->always_named)
      axes.push_back(fmt::format("{} {}", axis->name, stages ? degrees.*axis->degree : 1));
  }
  std::string text = fmt::format("{}", fmt::join(axes, " x "));
  bool alike = std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return stage.mesh.axes == plan.stages.front().mesh.axes;
  });
  if (alike) return text;
  return text + fmt::format(" in stage {}, the heaviest; stages differ", heaviest.stage);
}

Json MeshesJson(const PlanWords& words, const Plan& plan) {
  Json meshes = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Mesh& mesh = plan.stages[s].mesh;
    Json axes = Json::array();
    for (const AxisSplit& at : words.Of(plan, s).axes) {
      axes.push_back({{"name", at.axis.name}, {"size", at.axis.size}, {"splits", at.splits}});
      if (!at.axis.shares.empty()) axes.back()["shares"] = at.axis.shares;
    }
    meshes.push_back(
        {{"first_device", DeviceAt(mesh, 0)}, {"devices", mesh.size()}, {"axes", std::move(axes)}});
  }
  return meshes;
}

}  // namespace heddle
