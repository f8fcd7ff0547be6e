#include "plan/verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/integers.h"
#include "cluster/topology.h"
#include "ops/op.h"
#include "plan/gradient_sync.h"
#include "plan/verify_parts.h"

namespace heddle {
namespace {

class PlanVerifier {
 public:
  PlanVerifier(const Plan& plan, const Model& model) : plan_(plan), model_(model) {}

  std::vector<std::string> Run() {
    CheckModel();
    CheckBatch();
    CheckChoices();
    bool covered = CheckBlocks();
    size_t before = problems_.size();
    std::optional<int64_t> devices;
    if (sound_cluster_) devices = DeviceCount(plan_.cluster);
    CheckMeshes(plan_, devices, problems_);
    bool meshes = problems_.size() == before;
    if (meshes) CheckDevicesOfChunks(plan_, problems_);
    for (size_t s = 0; s < plan_.stages.size(); ++s) CheckStage(s, covered);
    if (meshes && problems_.empty()) CheckParameters();
    if (problems_.empty()) CheckSync();
    return problems_.Take();
  }

 private:
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.Add(format, std::forward<Args>(args)...);
  }

  void CheckModel() {
    uint64_t hash = StableHash(model_.graph);
    if (plan_.model.hash != hash) {
      Add("the plan is for another model: its hash is {}, the model's {}",
          HashToHex(plan_.model.hash), HashToHex(hash));
    }
    std::vector<std::string> found = Verify(plan_.cluster);
    sound_cluster_ = found.empty();
    for (const std::string& problem : found) Add("cluster: {}", problem);
  }

  void CheckBatch() {
    if (plan_.batch < 1) Add("batch is {}, must be at least 1", plan_.batch);
    if (model_.batch && plan_.batch != BatchSize(model_)) {
      Add("batch is {}, the model's is {}", plan_.batch, BatchSize(model_));
    }
    if (plan_.microbatches < 1) {
      Add("microbatches is {}, must be at least 1", plan_.microbatches);
    } else if (plan_.batch % plan_.microbatches != 0) {
      Add("a batch of {} is not divisible into {} micro-batches", plan_.batch, plan_.microbatches);
    } else if (plan_.microbatches > 1) {
      try {
        FindMicrobatchSums(model_, plan_.local_batch_statistics);
      } catch (const InputError& error) {
        Add("{}", error.what());
      }
    }
  }

  void CheckChoices() {
    if (plan_.schedule.empty()) Add("schedule has no name");
    if (plan_.optimizer.empty()) Add("optimizer has no name");
    if (plan_.precision.moments_kept != MomentsOf(plan_.optimizer))
      Add("optimizer {} keeps {} moments, not {}", plan_.optimizer, MomentsOf(plan_.optimizer),
          plan_.precision.moments_kept);
    if (plan_.bucket_bytes < 1) Add("bucket_bytes is {}, must be positive", plan_.bucket_bytes);
    if (plan_.prefetch < 0 || plan_.prefetch > kMaxPrefetch) {
      Add("prefetch is {}, must be 0 to {}", plan_.prefetch, kMaxPrefetch);
    }
    CheckPrecision();
    CheckPruning();
    if (plan_.zero.level < 0 || plan_.zero.level > kMostZero) {
      Add("zero level is {}, must be 0 to {}", plan_.zero.level, kMostZero);
    }
    if (plan_.offload != Offload::kNone) {
      for (const DeviceType& type : plan_.cluster.device_types) {
        if (!type.host.exists()) Add("offload: device '{}' has no link to its host", type.name);
      }
    }
    CheckShards();
    std::set<std::string> seen;
    for (const std::string& name : plan_.zero.axes) {
      bool known = std::any_of(plan_.stages.begin(), plan_.stages.end(), [&](const Stage& stage) {
        return std::any_of(stage.mesh.axes.begin(), stage.mesh.axes.end(),
                           [&](const MeshAxis& axis) { return axis.name == name; });
      });
      if (!known) Add("zero names axis '{}', which no mesh has", name);
      if (!seen.insert(name).second) Add("zero names axis '{}' twice", name);
    }
  }

  void CheckShards() {
    bool all = plan_.offload == Offload::kAll;
    if (all && SplitsState(plan_.zero.level))
      Add("offload all: ZeRO must be 0, and is {}", plan_.zero.level);
    // An overflow is known only once all gradients are there, and shards are updated before that.
    if (all && (plan_.precision.compute == DType::kF16 || plan_.precision.gradients == DType::kF16))
      Add("offload all: precision must be f32 or bf16, for f16 needs a loss scale");
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      if (!all && !stage.shard_starts.empty()) Add("stage {} has shards, without offload all", s);
      if (all && !stage.sync.empty()) Add("offload all: stage {} has servers or factors", s);
      int before = stage.first_block;
      for (int start : stage.shard_starts) {
        if (start <= before || start >= stage.last_block)
          Add("stage {}: a shard begins with block {}, must be from {} to {}", s, start, before + 1,
              stage.last_block - 1);
        before = start;
      }
    }
  }

  void CheckPruning() {
    const Pruning& pruning = plan_.pruning;
    if (pruning.sparsity < 0 || pruning.sparsity >= 1) {
      Add("a sparsity of {}, must be from 0 to below 1", pruning.sparsity);
    }
    std::map<std::string, ValueId> parameters;
    for (ValueId id : model_.graph.ValuesOf(ValueKind::kParameter)) {
      parameters.emplace(model_.graph.value(id).name, id);
    }
    for (const auto& [name, kept] : pruning.kept) {
      auto found = parameters.find(name);
      if (found == parameters.end()) {
        Add("pruning names '{}', which is not a parameter", name);
        continue;
      }
      int64_t elements = ElementCount(model_.graph.value(found->second).type.shape);
      if (kept < 1 || kept > elements) {
        Add("pruning keeps {} of the {} weights of '{}'", kept, elements, name);
      }
      if (!model_.flow.needed[found->second.index()]) {
        Add("pruning names '{}', which is not trained", name);
      }
    }
  }

  void CheckPrecision() {
    const Precision& p = plan_.precision;
    for (auto [name, dtype] :
         {std::pair("compute", p.compute), std::pair("gradients", p.gradients)}) {
      if (dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16) continue;
      Add("precision of {} is {}, must be f32, bf16 or f16", name, Name(dtype));
    }
    for (auto [name, dtype] : {std::pair("master", p.master), std::pair("moments", p.moments)}) {
      if (dtype == DType::kF32 || dtype == DType::kBF16) continue;
      Add("precision of {} is {}, must be f32 or bf16", name, Name(dtype));
    }
    if (p.products == Products::kFp8 && p.compute == DType::kF32) {
      Add("products of fp8 are made of bf16 or f16, and precision of compute is f32");
    }
  }

  bool CheckBlocks() {
    size_t before = problems_.size();
    if (plan_.stages.empty()) Add("there are no stages");
    int end = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      if (stage.first_block != end) {
        Add("stage {} begins with block {}, must be {}: stages cover all blocks in order", s,
            stage.first_block, end);
      }
      if (stage.last_block <= stage.first_block) {
        Add("stage {} has no blocks: [{}, {})", s, stage.first_block, stage.last_block);
      }
      end = stage.last_block;
    }
    if (!plan_.stages.empty() && end != static_cast<int>(model_.blocks.size())) {
      Add("the last stage ends with block {}, the model has {}", end, model_.blocks.size());
    }
    return problems_.size() == before;
  }

  // Along an axis of unlike shares a node must split the batch, or nothing.
  bool SplitsBatch(size_t n, int choice) const {
    if (choice < 0) return true;
    if (!model_.batch) return false;
    const std::optional<BatchPart>& part = model_.batch->factors[n][static_cast<size_t>(choice)];
    return part && part->outer == 1;
  }

  void CheckStage(size_t s, bool covered) {
    const Stage& stage = plan_.stages[s];
    const HalfTimes& t = stage.times;
    for (auto [name, time] : {std::pair("forward", t.forward), std::pair("backward", t.backward),
                              std::pair("weight", t.weight)}) {
      if (!std::isfinite(time) || time <= 0) {
        Add("stage {}: the {} time is {}, must be positive and finite", s, name, time);
      }
    }
    if (!covered) return;
    auto blocks = static_cast<size_t>(stage.last_block - stage.first_block);
    if (stage.recompute.size() != blocks) {
      Add("stage {}: recompute has {} choices for {} blocks", s, stage.recompute.size(), blocks);
    }
    if (stage.strategies.size() != model_.graph.nodes.size()) {
      Add("stage {}: strategies for {} nodes, the model has {}", s, stage.strategies.size(),
          model_.graph.nodes.size());
      return;
    }
    std::vector<NodeId> nodes = NodesOf(model_, stage);
    std::vector<bool> ours(stage.strategies.size(), false);
    for (NodeId id : nodes) ours[id.index()] = true;
    for (NodeId id : SideNodesOf(model_, nodes)) ours[id.index()] = true;
    for (size_t n = 0; n < ours.size(); ++n) {
      if (ours[n]) {
        CheckStrategy(s, n);
      } else if (!stage.strategies[n].empty()) {
        Add("stage {}: {} has a strategy but is not the stage's", s, NameOf(n));
      }
    }
  }

  void CheckStrategy(size_t s, size_t n) {
    const Mesh& mesh = plan_.stages[s].mesh;
    const Strategy& strategy = plan_.stages[s].strategies[n];
    const Rule& rule = model_.rules[n];
    if (strategy.size() != mesh.axes.size()) {
      Add("stage {}: {} has {} choices for {} axes", s, NameOf(n), strategy.size(),
          mesh.axes.size());
      return;
    }
    for (size_t a = 0; a < strategy.size(); ++a) {
      AxisChoice choice = strategy[a];
      if (choice.is_partial() && ToSize(choice.linear_set()) >= rule.linear.size()) {
        Add("stage {}: {} has no linear set {} to pass a partial sum over {} through", s, NameOf(n),
            choice.linear_set(), mesh.axes[a].name);
      }
      if (!choice.is_split()) continue;
      size_t f = choice.factor_index();
      if (f >= rule.factors.size()) {
        Add("stage {}: {} has no factor {} to split over {}: there are {}", s, NameOf(n), f,
            mesh.axes[a].name, rule.factors.size());
        continue;
      }
      if (!mesh.axes[a].shares.empty() && !SplitsBatch(n, choice.factor())) {
        Add("stage {}: {} splits factor {} over {}, whose unlike shares are of the batch", s,
            NameOf(n), rule.factors[f].name, mesh.axes[a].name);
      }
      const Factor& factor = rule.factors[f];
      const OpDef* op = FindOp(model_.graph.nodes[n].op);
      bool expands = op != nullptr && op->expansion != nullptr;
      if (factor.kind == FactorKind::kWhole || (factor.kind == FactorKind::kExpanded && !expands)) {
        Add("stage {}: {} cannot split factor {} over {}: it is whole", s, NameOf(n), factor.name,
            mesh.axes[a].name);
      }
    }
  }

  // Where a parameter is first read on a stage.
  struct Reading {
    size_t stage;
    std::string node;
    std::vector<MeshAxis> axes;
    Sharding sharding;
  };

  void CheckParameters() {
    std::map<ValueId, Reading> first;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      std::set<ValueId> seen;
      for (size_t n = 0; n < stage.strategies.size(); ++n) {
        const Node& node = model_.graph.nodes[n];
        bool ours = !stage.strategies[n].empty() || (stage.mesh.axes.empty() && IsOn(stage, n));
        for (size_t o = 0; ours && o < node.operands.size(); ++o) {
          const Value& value = model_.graph.value(node.operands[o]);
          if (value.kind != ValueKind::kParameter || !seen.insert(node.operands[o]).second)
            continue;
          Reading here{s, NameOf(n), stage.mesh.axes,
                       OperandSharding(stage.mesh, model_.rules[n], stage.strategies[n], o)};
          const Reading& there = first.emplace(node.operands[o], here).first->second;
          const Mesh& first_mesh = plan_.stages[there.stage].mesh;
          if (!SameDevices(first_mesh, stage.mesh) && ShareDevices(first_mesh, stage.mesh)) {
            Add("parameter '{}' is on stages {} and {}, which share some of their devices but not "
                "all",
                value.name, there.stage, s);
          }
          if (there.axes == here.axes && there.sharding == here.sharding) continue;
          Add("parameter '{}' is stored as {} on stage {} ({}) and as {} on stage {} ({})",
              value.name, ToString(plan_.stages[there.stage].mesh, there.sharding), there.stage,
              there.node, ToString(stage.mesh, here.sharding), s, here.node);
        }
      }
    }
  }

  void CheckSync() {
    SyncRules rules(model_, plan_.stages);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (auto [id, sync] : plan_.stages[s].sync) {
        if (id.value < 0 || id.index() >= model_.graph.values.size()) {
          Add("stage {}: sync names value {}, which the model does not have", s, id.value);
          continue;
        }
        std::string why = rules.WhyNot(s, id, sync);
        if (why.empty() && !rules.Agree(id)) why = "another stage that reads it has another";
        if (why.empty() && plan_.zero.level > DefOf(sync).most_zero) {
          why = fmt::format("ZeRO {} shares out the gradients among the replicas: use 0 or 1",
                            plan_.zero.level);
        }
        if (why.empty()) continue;
        Add("stage {}: '{}' cannot have sync {}: {}", s, model_.graph.value(id).name, Name(sync),
            why);
      }
    }
  }

  bool IsOn(const Stage& stage, size_t n) const {
    return model_.block_of[n] >= stage.first_block && model_.block_of[n] < stage.last_block;
  }

  std::string NameOf(size_t n) const {
    const Node& node = model_.graph.nodes[n];
    return fmt::format("{} '{}'", node.op, model_.graph.value(node.results.front()).name);
  }

  const Plan& plan_;
  const Model& model_;
  bool sound_cluster_ = false;
  PlanProblems problems_;
};

}  // namespace

std::vector<std::string> Verify(const Plan& plan, const Model& model) {
  return PlanVerifier(plan, model).Run();
}

void RequireSound(const Plan& plan, const Model& model, const std::string& what) {
  std::vector<std::string> problems = Verify(plan, model);
  if (problems.empty()) return;
  std::string more = problems.size() > 1 ? fmt::format(" (and {} more)", problems.size() - 1) : "";
  ThrowInput("{}: {}{}", what, problems[0], more);
}

}  // namespace heddle
