#include "program/alike_builds.h"

#include <algorithm>
#include <optional>

#include "base/integers.h"
#include "base/parallel.h"
#include "program/arrival.h"

namespace heddle {
namespace {

// A stage, and what makes it unlike others.
struct Subject {
  StageId id;
  const Stage* stage = nullptr;
  std::vector<NodeId> nodes;  // of the stage and its side nodes, ascending
  std::vector<double> links;  // what Arriving goes by
};

class Matcher {
 public:
  Matcher(const LoweringContext& context, const Subject& from, const Subject& to)
      : context_(context), model_(context.expanded.model), from_(from), to_(to) {}

  // Empty where the stages are not alike.
  std::optional<StageMatch> Match() {
    match_.stages = to_.id.value - from_.id.value;
    match_.blocks = to_.stage->first_block - from_.stage->first_block;
    if (!AreStagesAlike()) return std::nullopt;
    for (size_t i = 0; i < from_.nodes.size(); ++i) {
      if (!MatchNodes(from_.nodes[i], to_.nodes[i])) return std::nullopt;
    }
    if (!AreOrdered() || !AreBlocksAlike()) return std::nullopt;
    for (const auto& [a, b] : match_.values) {
      if (!AreValuesAlike(a, b)) return std::nullopt;
    }
    return std::move(match_);
  }

 private:
  const Node& node(NodeId id) const { return model_.graph.node(id); }

  bool AreStagesAlike() const {
    const Stage& a = *from_.stage;
    const Stage& b = *to_.stage;
    return from_.nodes.size() == to_.nodes.size() && a.mesh.axes == b.mesh.axes &&
           a.recompute == b.recompute && a.sync.empty() && b.sync.empty() &&
           a.shard_starts.empty() && b.shard_starts.empty() && from_.links == to_.links;
  }

  bool MatchNodes(NodeId a, NodeId b) {
    size_t i = a.index(), j = b.index();
    bool alike =
        &context_.rules[i] == &context_.rules[j] && &model_.rules[i] == &model_.rules[j] &&
        node(a).op == node(b).op && from_.stage->strategies[i] == to_.stage->strategies[j] &&
        model_.once[i] == model_.once[j] && MatchBlocks(model_.block_of[i], model_.block_of[j]);
    if (!alike || !Pair(node(a).operands, node(b).operands)) return false;
    if (!Pair(node(a).results, node(b).results)) return false;
    for (size_t r = 0; r < node(a).results.size(); ++r) {
      if (!AreReadersAlike(node(a).results[r], node(b).results[r])) return false;
    }
    match_.nodes.push_back({a, b});
    return true;
  }

  bool MatchBlocks(int a, int b) const { return a < 0 ? b < 0 : b == a + match_.blocks; }

  bool Pair(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) match_.values.push_back({a[i], b[i]});
    return true;
  }

  // Both values have as many readers, in stages at the same distance.
  bool AreReadersAlike(ValueId a, ValueId b) const {
    auto alike = [&](const std::vector<StageId>& x, const std::vector<StageId>& y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](StageId s, StageId t) { return t.value == s.value + match_.stages; });
    };
    return model_.readers[a.index()].size() == model_.readers[b.index()].size() &&
           alike(context_.reader_stages[a.index()], context_.reader_stages[b.index()]) &&
           alike(context_.gradient_stages[a.index()], context_.gradient_stages[b.index()]);
  }

  // Every value corresponds to one other, and both lists are in the same order.
  bool AreOrdered() {
    auto& values = match_.values;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return std::adjacent_find(values.begin(), values.end(), [](const auto& x, const auto& y) {
             return !(x.first < y.first && x.second < y.second);
           }) == values.end();
  }

  bool AreBlocksAlike() const {
    for (int b = from_.stage->first_block; b < from_.stage->last_block; ++b) {
      const ModelBlock& x = model_.blocks[ToSize(b)];
      const ModelBlock& y = model_.blocks[ToSize(b + match_.blocks)];
      bool alike = (x.chain >= 0) == (y.chain >= 0) && x.nodes.size() == y.nodes.size();
      for (size_t n = 0; alike && n < x.nodes.size(); ++n) {
        alike = match_.Of(x.nodes[n]) == y.nodes[n];
      }
      if (!alike) return false;
    }
    return true;
  }

  bool AreValuesAlike(ValueId a, ValueId b) const {
    size_t i = a.index(), j = b.index();
    const Value& x = model_.graph.values[i];
    const Value& y = model_.graph.values[j];
    ValueId output = model_.graph.outputs.front();
    bool tied = x.kind == ValueKind::kParameter &&
                context_.reader_stages[i].size() != context_.reader_stages[j].size();
    return x.kind == y.kind && x.type == y.type && !tied && (a == output) == (b == output) &&
           model_.flow.needed[i] == model_.flow.needed[j] &&
           model_.flow.weight[i] == model_.flow.weight[j] &&
           context_.sums.term[i] == context_.sums.term[j] &&
           context_.sums.first[i] == context_.sums.first[j] && IsMadeAlike(x.producer, y.producer);
  }

  // Readers must correspond to each other, or be outside of both stages.
  bool IsMadeAlike(NodeId a, NodeId b) const {
    auto inside = [](const Subject& of, NodeId id) {
      return id.valid() && std::binary_search(of.nodes.begin(), of.nodes.end(), id);
    };
    if (!inside(from_, a) || !inside(to_, b)) {
      return inside(from_, a) == inside(to_, b) && a.valid() == b.valid();
    }
    return match_.Of(a) == b;
  }

  const LoweringContext& context_;
  const Model& model_;
  const Subject& from_;
  const Subject& to_;
  StageMatch match_;
};

// Stages whose builds depend on names of parameters, or that have shards, are built one by one.
bool MayBeAlike(const LoweringContext& context) {
  return context.plan.pruning.kept.empty() && context.mask == nullptr &&
         context.plan.offload != Offload::kAll;
}

// A build with all numbers replaced by those of another stage.
StageBuild Copy(const StageBuild& build, const StageMatch& match, const Stage& stage) {
  StageBuild out = build;
  out.stage.mesh = stage.mesh;
  out.stage.strategies = stage.strategies;
  for (Local& local : out.stage.locals) local.value = match.Of(local.value);
  for (Segment& segment : out.stage.segments) {
    for (NodeId& id : segment.nodes) id = match.Of(id);
    if (segment.block.valid()) segment.block.value += match.blocks;
    if (segment.unit.valid()) segment.unit.value += match.blocks;
  }
  for (ParameterGroup& group : out.stage.groups) {
    for (ParameterSlot& slot : group.slots) slot.parameter = match.Of(slot.parameter);
  }
  auto replace = [&](std::map<ValueId, StageBuild::Crossing>& crossings) {
    std::map<ValueId, StageBuild::Crossing> replaced;
    for (const auto& [id, crossing] : crossings) {
      StageBuild::Crossing& made = replaced[match.Of(id)];
      made.local = crossing.local;
      for (const auto& [other, gradient] : crossing.gradients) {
        made.gradients[other.valid() ? StageId{other.value + match.stages} : other] = gradient;
      }
    }
    crossings = std::move(replaced);
  };
  replace(out.sent);
  replace(out.received);
  return out;
}

template <typename Id>
Id Find(const std::vector<std::pair<Id, Id>>& pairs, Id id) {
  return std::lower_bound(pairs.begin(), pairs.end(), id,
                          [](const auto& pair, Id other) { return pair.first < other; })
      ->second;
}

}  // namespace

NodeId StageMatch::Of(NodeId id) const { return Find(nodes, id); }
ValueId StageMatch::Of(ValueId id) const { return Find(values, id); }

AlikeStages FindAlikeStages(const LoweringContext& context) {
  const std::vector<Stage>& stages = context.expanded.stages;
  IdVector<StageId, Subject> subjects(stages.size());
  bool may = MayBeAlike(context);
  InParallel(may ? stages.size() : 0, [&](size_t s) {
    StageId id = StageId::FromIndex(s);
    Subject& subject = subjects[id];
    subject = {id, &stages[s], NodesAndSideNodesOf(context.expanded.model, stages[s]),
               LinksOfArrival(context.plan.cluster, stages[s].mesh)};
    std::sort(subject.nodes.begin(), subject.nodes.end());
  });
  AlikeStages out;
  out.match.resize(stages.size());
  std::vector<StageId> unlike;
  for (StageId id : subjects.ids()) {
    out.first.push_back(id);
    for (size_t u = 0; may && u < unlike.size(); ++u) {
      std::optional<StageMatch> match = Matcher(context, subjects[unlike[u]], subjects[id]).Match();
      if (!match) continue;
      out.first[id] = unlike[u];
      out.match[id] = std::move(*match);
      break;
    }
    if (out.first[id] == id) unlike.push_back(id);
  }
  return out;
}

StageBuilds BuildStages(const LoweringContext& context) {
  AlikeStages alike = FindAlikeStages(context);
  std::vector<StageId> own, others;
  for (StageId id : alike.first.ids()) (alike.first[id] == id ? own : others).push_back(id);
  StageBuilds builds(alike.first.size());
  InParallel(own.size(), [&](size_t i) { builds[own[i]] = BuildStage(context, own[i]); });
  InParallel(others.size(), [&](size_t i) {
    StageId id = others[i];
    builds[id] =
        Copy(builds[alike.first[id]], alike.match[id], context.expanded.stages[id.index()]);
  });
  return builds;
}

}  // namespace heddle
