#include "search/explore/assemble.h"

#include <algorithm>

#include "plan/axes.h"

namespace heddle {
namespace {

// A node splits the batch, or replicates.
AxisChoice BatchSplit(const Model& model, size_t n) {
  if (!model.batch || model.once[n]) return kReplicate;
  for (size_t f = 0; f < model.batch->factors[n].size(); ++f) {
    const std::optional<BatchPart>& part = model.batch->factors[n][f];
    if (part && part->outer == 1 && model.rules[n].factors[f].kind != FactorKind::kWhole) {
      return Split(static_cast<int>(f));
    }
  }
  return kReplicate;
}

Plan StartPlan(const SearchProblem& problem, uint64_t hash) {
  Plan plan;
  plan.model.hash = hash;
  plan.cluster = problem.cluster;
  plan.batch = std::max<int64_t>(1, BatchSize(problem.model));
  plan.precision = PrecisionOf(problem);
  plan.optimizer = problem.optimizer;
  plan.local_batch_statistics = problem.local_batch_statistics;
  plan.bucket_bytes = problem.bucket_bytes;
  return plan;
}

}  // namespace

std::vector<Strategy> WithDataAxis(const Model& model, std::vector<Strategy> strategies) {
  for (size_t n = 0; n < strategies.size(); ++n) {
    strategies[n].insert(strategies[n].begin(), BatchSplit(model, n));
  }
  return strategies;
}

Plan Assemble(const SearchProblem& problem, uint64_t hash, Prices& prices, Estimator& estimator,
              const Configuration& c, const Estimate& estimate) {
  const Model& model = problem.model;
  Plan plan = StartPlan(problem, hash);
  plan.microbatches = c.microbatches;
  plan.schedule = c.schedule;
  plan.chunks = c.chunks;
  plan.zero.level = c.dp > 1 ? c.zero : 0;
  if (plan.zero.level > 0) plan.zero.axes = {kDataAxis};
  plan.offload = c.offload;
  if (estimate.bucket_bytes > 0) plan.bucket_bytes = estimate.bucket_bytes;
  Mesh mesh;
  if (c.dp > 1) mesh.axes.push_back(DataAxis(c.dp));
  std::map<RecomputePolicy, std::vector<Strategy>> strategies;
  for (const StageEstimate& at : estimate.stages) {
    for (RecomputePolicy policy : at.recompute) strategies.try_emplace(policy);
  }
  for (auto& [policy, of] : strategies) {
    const Priced* priced = estimator.PricedAs(c, policy, estimate.memory_level);
    of = prices.StrategiesOf(*priced);
    if (strategies.begin()->first == policy) {
      mesh.axes.insert(mesh.axes.end(), priced->mesh.axes.begin(), priced->mesh.axes.end());
    }
    if (c.dp > 1) of = WithDataAxis(model, std::move(of));
  }
  for (size_t s = 0; s < estimate.stages.size(); ++s) {
    const StageEstimate& at = estimate.stages[s];
    Stage stage;
    stage.first_block = at.first_block;
    stage.last_block = at.last_block;
    stage.mesh = mesh;
    stage.mesh.first = static_cast<int64_t>(s) % c.pp * mesh.size();
    stage.recompute = at.recompute;
    // A stage without parameters has no W half, but times of plans must be positive.
    constexpr double kLeast = 1e-9;
    stage.times = {std::max(at.times.forward, kLeast), std::max(at.times.backward, kLeast),
                   std::max(at.times.weight, kLeast)};
    stage.strategies.resize(model.graph.nodes.size());
    std::vector<NodeId> nodes;
    for (int b = at.first_block; b < at.last_block; ++b) {
      const std::vector<Strategy>& of =
          strategies[at.recompute[static_cast<size_t>(b - at.first_block)]];
      for (NodeId id : model.blocks[static_cast<size_t>(b)].nodes) {
        stage.strategies[id.index()] = of[id.index()];
        nodes.push_back(id);
      }
    }
    for (NodeId id : SideNodesOf(model, nodes)) {
      stage.strategies[id.index()] = strategies.begin()->second[id.index()];
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace heddle
