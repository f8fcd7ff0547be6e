// Random plans with any strategy for any node, on any mesh. Lowering must give valid programs for them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/op.h"
#include "plan/gradient_sync.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace heddle {

using Random = std::mt19937_64;

inline int64_t Below(Random& rng, size_t bound) { return static_cast<int64_t>(rng() % bound); }

// For each axis a factor that may be split, a linear set, or nothing.
inline Strategy RandomStrategy(const std::string& op, const Rule& rule, const Mesh& mesh,
                               bool expand, Random& rng) {
  std::vector<AxisChoice> choices = {kReplicate};
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    FactorKind kind = rule.factors[f].kind;
    if (kind == FactorKind::kWhole) continue;
    if (kind == FactorKind::kExpanded && (!expand || !FindOp(op)->expansion)) continue;
    choices.push_back(Split(static_cast<int>(f)));
  }
  for (size_t k = 0; k < rule.linear.size(); ++k)
    choices.push_back(PassPartial(static_cast<int>(k)));
  Strategy strategy;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    strategy.push_back(choices[static_cast<size_t>(Below(rng, choices.size()))]);
  }
  return strategy;
}

inline Mesh RandomMesh(Random& rng, bool large) {
  static const std::vector<std::vector<int64_t>> kSmall = {
      {1}, {2}, {2}, {3}, {4}, {2, 2}, {2, 2}, {1, 2}, {2, 3}, {2, 2, 2}};
  static const std::vector<std::vector<int64_t>> kLarge = {
      {16},      {4, 4}, {2, 8},    {8, 2},       {3, 5},
      {4, 2, 2}, {12},   {2, 2, 4}, {2, 2, 2, 2}, {2, 1, 2, 2, 2}};
  const auto& shapes = large ? kLarge : kSmall;
  const std::vector<int64_t>& shape = shapes[static_cast<size_t>(Below(rng, shapes.size()))];
  Mesh mesh;
  for (size_t a = 0; a < shape.size(); ++a)
    mesh.axes.push_back({std::string(1, static_cast<char>('v' + a)), shape[a]});
  return mesh;
}

// The parameters that several stages read.
inline std::set<ValueId> SharedParameters(const Model& model, const std::vector<Stage>& stages) {
  std::set<ValueId> shared;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    int readers = 0;
    for (const Stage& stage : stages) {
      std::vector<NodeId> nodes = NodesOf(model, stage);
      std::vector<NodeId> side = SideNodesOf(model, nodes);
      nodes.insert(nodes.end(), side.begin(), side.end());
      readers += std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) {
        const std::vector<ValueId>& operands = model.graph.node(node).operands;
        return std::find(operands.begin(), operands.end(), id) != operands.end();
      });
    }
    if (readers > 1) shared.insert(id);
  }
  return shared;
}

// Divides the blocks at random into `stages` stages.
inline void SplitBlocks(const Model& model, size_t stages, Random& rng, Plan& plan) {
  std::set<int> cuts;
  int blocks = static_cast<int>(model.blocks.size());
  while (cuts.size() + 1 < stages)
    cuts.insert(1 + static_cast<int>(Below(rng, static_cast<size_t>(blocks - 1))));
  cuts.insert(blocks);
  int first = 0;
  for (int cut : cuts) {
    Stage stage;
    stage.first_block = first;
    stage.last_block = first = cut;
    plan.stages.push_back(std::move(stage));
  }
}

inline void PlaceStages(Random& rng, bool alike, size_t runs, bool large, Plan& plan) {
  Mesh mesh = RandomMesh(rng, large);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    int64_t first = mesh.first + mesh.size();
    if (s == 0) first = 0;
    if (s > 0 && !alike) mesh = RandomMesh(rng, large);
    mesh.first = first;
    if (s >= runs) mesh = plan.stages[s % runs].mesh;
    plan.stages[s].mesh = mesh;
  }
}

// Chooses random strategies and recomputation. A node that reads a parameter of several stages is not split.
inline void ChooseStrategies(const Model& model, const std::set<ValueId>& shared, Random& rng,
                             Plan& plan) {
  for (Stage& stage : plan.stages) {
    stage.strategies.resize(model.graph.nodes.size());
    std::vector<NodeId> nodes = NodesOf(model, stage);
    std::vector<NodeId> side = SideNodesOf(model, nodes);
    std::set<NodeId> beside(side.begin(), side.end());
    nodes.insert(nodes.end(), side.begin(), side.end());
    for (NodeId id : nodes) {
      const Node& node = model.graph.node(id);
      bool tied = std::any_of(node.operands.begin(), node.operands.end(),
                              [&](ValueId v) { return shared.count(v) != 0; });
      Strategy whole(stage.mesh.axes.size(), kReplicate);
      bool expand = !beside.count(id);
      Strategy any = RandomStrategy(node.op, model.rules[id.index()], stage.mesh, expand, rng);
      stage.strategies[id.index()] = tied || Below(rng, 4) == 0 ? whole : any;
    }
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      stage.recompute.push_back(
          static_cast<RecomputePolicy>(Below(rng, kRecomputePolicies.size())));
    }
  }
}

// The plan is valid by plan/verify.h except for the cluster and, on some models, the rules against micro-batches. It
// has at most 32 devices; `large`: about 16 to 64.
inline Plan RandomPlan(const Model& model, Random& rng, bool large = false) {
  Plan plan;
  plan.batch = BatchSize(model);
  plan.model.hash = StableHash(model.graph);
  const ScheduleDef& schedule =
      AllSchedules()[static_cast<size_t>(Below(rng, AllSchedules().size()))];
  plan.schedule = schedule.name;
  size_t runs = 1 + static_cast<size_t>(Below(rng, 4));
  if (schedule.takes_chunks) plan.chunks = 1 + static_cast<int>(Below(rng, 2));
  std::vector<int64_t> counts;
  for (int64_t count : {1, 2, 4}) {
    bool fits = plan.batch % count == 0 &&
                (!schedule.full_rounds || count % static_cast<int64_t>(runs) == 0);
    if (fits) counts.push_back(count);
  }
  if (counts.empty()) {
    runs = 1;
    counts = {1};
  }
  plan.microbatches = counts[static_cast<size_t>(Below(rng, counts.size()))];
  size_t stages = std::min(runs * static_cast<size_t>(plan.chunks), model.blocks.size());
  plan.chunks = static_cast<int>(stages / runs);
  SplitBlocks(model, runs * static_cast<size_t>(plan.chunks), rng, plan);
  std::set<ValueId> shared = SharedParameters(model, plan.stages);
  PlaceStages(rng, !shared.empty(), runs, large, plan);
  ChooseStrategies(model, shared, rng, plan);
  plan.zero.level = static_cast<int>(Below(rng, 4));
  size_t axes = 0;
  for (const Stage& stage : plan.stages) axes = std::max(axes, stage.mesh.axes.size());
  for (size_t a = 0; a < axes; ++a) {
    if (a == 0 || Below(rng, 2) == 0)
      plan.zero.axes.push_back(std::string(1, static_cast<char>('v' + a)));
  }
  plan.bucket_bytes = int64_t{1} << (4 + Below(rng, 20));
  plan.local_batch_statistics = Below(rng, 2) == 0;
  if (Below(rng, 3) == 0) plan.precision.compute = DType::kBF16;
  plan.prefetch = static_cast<int>(Below(rng, 3));
  return plan;
}

// Chooses random GradientSync for parameters that support it, in half of the plans that allow it.
inline void AddRandomSync(const Model& model, Random& rng, Plan& plan) {
  if (SplitsGradients(plan.zero.level) || Below(rng, 2) == 0) return;
  SyncRules rules(model, plan.stages);
  std::vector<Stage> stages = plan.stages;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    auto sync = static_cast<GradientSync>(Below(rng, kGradientSyncNames.size()));
    for (size_t s = 0; s < stages.size(); ++s) {
      if (sync != GradientSync::kReduce && rules.WhyNot(s, id, sync).empty())
        stages[s].sync[id] = sync;
    }
  }
  plan.stages = std::move(stages);
}

}  // namespace heddle
