#include "search/spilled.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "search/judge.h"
#include "search/shards.h"

namespace heddle {
namespace {

constexpr int kTries = 8;

bool MaySpill(const SearchProblem& problem) {
  const FixedDegrees& fixed = problem.fixed;
  bool free = fixed.tp.value_or(1) == 1 && fixed.pp.value_or(1) == 1 &&
              fixed.zero.value_or(0) == 0 && fixed.layers_per_stage.empty();
  bool wanted = fixed.offload.value_or(Offload::kAll) == Offload::kAll;
  return free && wanted && CanOffload(problem.cluster) &&
         problem.cluster.device_types.size() == 1 && problem.precision != DType::kF16 &&
         problem.gradients != DType::kF16 && BatchSize(problem.model) > 0;
}

Plan CutPlan(const SearchProblem& problem, const Degrees& degrees, const ModelCosts& costs,
             const std::vector<int>& ends) {
  Plan plan = ExpertPlan(problem.model, problem.cluster, degrees);
  plan.pruning = problem.pruning;
  Stage& stage = plan.stages[0];
  for (size_t e = 0; e + 1 < ends.size(); ++e)
    stage.shard_starts.push_back(costs.block_ends[static_cast<size_t>(ends[e] - 1)]);
  for (int b = 0; b < stage.last_block; ++b) {
    bool last = ShardOf(stage, b) + 1 == ShardCount(stage);
    stage.recompute[static_cast<size_t>(b)] =
        last ? RecomputePolicy::kNone : RecomputePolicy::kFull;
  }
  return plan;
}

}  // namespace

std::vector<Proposal> SpilledPlans(const SearchProblem& problem, double* least) {
  if (!MaySpill(problem)) return {};
  int64_t batch = BatchSize(problem.model);
  int64_t devices = problem.fixed.dp.value_or(DeviceCount(problem.cluster));
  int64_t microbatches = problem.fixed.microbatches.value_or(1);
  if (devices < 1 || batch % (devices * microbatches) != 0) return {};
  Degrees degrees{.dp = devices,
                  .microbatches = microbatches,
                  .offload = Offload::kAll,
                  .precision = problem.precision,
                  .local_batch_statistics = problem.local_batch_statistics,
                  .gradients = problem.gradients,
                  .products = problem.products};
  ModelCosts costs;
  try {
    Model part = Analyse(Rebatch(problem.model.graph, batch / (devices * microbatches)));
    costs = FindModelCosts(part, problem.cluster,
                           {.precision = problem.precision,
                            .pruning = problem.pruning,
                            .local_batch_statistics = true,
                            .sim = problem.sim});
  } catch (const InputError&) {
    return {};  // its batch cannot be divided
  }
  int64_t limit = MemoryLimit(problem), memory = limit, reserved = 0;  // the least so far
  for (int tries = 0; tries < kTries && memory > 0 && !problem.Over(); ++tries) {
    FleetShards shards = CutFleet({&costs}, memory);
    if (!shards.feasible) {
      *least = static_cast<double>(reserved > 0 ? reserved : shards.needed);
      return {};
    }
    auto judged = std::make_shared<JudgedPlan>(
        Judge(problem, {CutPlan(problem, degrees, costs, shards.ends[0]), "spilled"}));
    if (judged->fits || !judged->fits_host()) {
      if (!judged->fits) return {};
      Proposal proposal{judged->plan, judged->from};
      proposal.judged = judged;
      return {proposal};
    }
    reserved = reserved == 0 ? judged->reserved() : std::min(reserved, judged->reserved());
    *least = static_cast<double>(reserved);
    double share = static_cast<double>(limit) / static_cast<double>(judged->reserved());
    memory = static_cast<int64_t>(static_cast<double>(memory) * std::clamp(share, 0.7, 0.97));
  }
  return {};
}

}  // namespace heddle
