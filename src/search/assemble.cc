#include "search/assemble.h"

#include <algorithm>

#include "plan/sequence.h"

namespace heddle {
namespace {

// The factor along which a node splits the batch, or kReplicate.
int BatchFactor(const Model& model, size_t n) {
  if (!model.batch || model.once[n]) return kReplicate;
  for (size_t f = 0; f < model.batch->factors[n].size(); ++f) {
    const std::optional<BatchPart>& part = model.batch->factors[n][f];
    if (part && part->outer == 1 && model.rules[n].factors[f].kind != FactorKind::kWhole) {
      return static_cast<int>(f);
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
    strategies[n].insert(strategies[n].begin(), BatchFactor(model, n));
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
  if (plan.zero.level > 0) plan.zero.axes = {"dp"};
  plan.offload = c.offload;
  Mesh mesh;
  if (c.dp > 1) mesh.axes.push_back({"dp", c.dp});
  std::map<RecomputePolicy, std::vector<Strategy>> strategies;
  for (const StageEstimate& at : estimate.stages) {
    for (RecomputePolicy policy : at.recompute) strategies.try_emplace(policy);
  }
  for (auto& [policy, of] : strategies) {
    const Priced* priced = estimator.PricedAs(c, policy, estimate.thrift);
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
    // A stage without parameters has no weights' half; times of plans are positive.
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

PlanDegrees DegreesOf(const Model& model, const Plan& plan) {
  PlanDegrees degrees;
  degrees.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  degrees.recompute = plan.stages.front().recompute.front();
  const Stage* heaviest = nullptr;
  NodeId node;
  double most = -1;
  SequenceInfo sequence = FindSequence(model.graph, model.rules);
  for (const Stage& stage : plan.stages) {
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      RecomputePolicy policy = stage.recompute[static_cast<size_t>(b - stage.first_block)];
      if (model.blocks[static_cast<size_t>(b)].chain >= 0 || LayersOf(model) == 0) {
        if (most < 0) degrees.recompute = policy;
        if (degrees.recompute && policy != *degrees.recompute) degrees.recompute.reset();
      }
      for (NodeId id : model.blocks[static_cast<size_t>(b)].nodes) {
        const Rule& rule = model.rules[id.index()];
        bool weights = std::any_of(
            model.graph.node(id).operands.begin(), model.graph.node(id).operands.end(),
            [&](ValueId v) { return model.graph.value(v).kind == ValueKind::kParameter; });
        if (!weights) continue;
        double flops =
            NodeWork(model.graph.node(id), rule, model.flow, WholeBlocks(rule)).forward.flops;
        if (flops <= most) continue;
        most = flops;
        heaviest = &stage;
        node = id;
      }
    }
  }
  if (heaviest == nullptr) return degrees;
  const Rule& rule = model.rules[node.index()];
  const Strategy& strategy = heaviest->strategies[node.index()];
  for (size_t a = 0; a < strategy.size(); ++a) {
    int64_t size = heaviest->mesh.axes[a].size;
    int f = strategy[a];
    if (f < 0) continue;
    size_t factor = static_cast<size_t>(f);
    bool batch = model.batch && model.batch->factors[node.index()].size() > factor &&
                 model.batch->factors[node.index()][factor];
    bool along = !sequence.factors.empty() && sequence.factors[node.index()][factor].has_value();
    bool summed = rule.factors[factor].kind == FactorKind::kSummed;
    bool in_result = Has(rule.results[0], f);
    bool everywhere = in_result;
    for (const Dims& operand : rule.operands) everywhere = everywhere && Has(operand, f);
    if (heaviest->mesh.axes[a].name == "dp" || (batch && !along)) {
      degrees.dp *= size;
    } else if (along) {
      degrees.cp *= size;
    } else if (everywhere && !summed) {
      degrees.ep *= size;
    } else {
      degrees.tp *= size;
    }
  }
  // What the tensor axis leaves whole elsewhere in the block may be split by sequence.
  int block = model.block_of[node.index()];
  if (degrees.tp == 1 || sequence.factors.empty() || block < 0) return degrees;
  for (NodeId id : model.blocks[static_cast<size_t>(block)].nodes) {
    const Strategy& other = heaviest->strategies[id.index()];
    for (size_t a = 0; a < other.size(); ++a) {
      if (heaviest->mesh.axes[a].name != "tp" || other[a] < 0) continue;
      degrees.sp |= sequence.factors[id.index()][static_cast<size_t>(other[a])].has_value();
    }
  }
  return degrees;
}

}  // namespace heddle
