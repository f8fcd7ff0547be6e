#include "search/explore/refine.h"

#include "plan/verify.h"
#include "search/explore/assemble.h"
#include "search/solver/limited.h"

namespace heddle {
namespace {

// The least gain for which another plan is made; smaller gains are within the error of estimates.
constexpr double kGain = 1e-3;
constexpr int64_t kLabels = 1 << 14;  // take some 10 ms

struct Exact {
  double seconds = kForbidden;  // of a micro-batch
  RecomputePolicy recompute = RecomputePolicy::kNone;
  std::vector<Strategy> strategies;
};

Exact Solve(ProblemMaker& maker, const StageEstimate& at, const StageScale& scale, double limit,
            std::optional<RecomputePolicy> fixed) {
  Exact best;
  for (const RecomputeDef& def : kRecomputePolicies) {
    RecomputePolicy policy = def.policy;
    if (fixed && policy != *fixed) continue;
    StageProblem stage = maker.Of(at.first_block, at.last_block, policy);
    LimitedSolution found =
        SolveLimited(Weighed(stage, scale),
                     {.limit = limit, .gap = kGain, .max_nodes = 1, .max_labels = kLabels});
    if (!found.best || found.best->objective >= best.seconds) continue;
    best = {found.best->objective, policy, StrategiesOf(stage, found.best->choice)};
  }
  return best;
}

// For the times of a schedule or of a plan.
template <typename Times>
Times Scaled(const Times& times, double by) {
  return {times.forward * by, times.backward * by, times.weight * by};
}

}  // namespace

std::optional<Refined> Refine(const SearchTask& task, const Prices& prices, const Configuration& c,
                              const Estimate& estimate, const Plan& plan, double share) {
  const ScheduleDef* schedule = FindSchedule(c.schedule);
  if (c.chunks > 1 || schedule->splits_backward) return {};
  if (estimate.plain && estimate.memory_level == 0) return {};
  auto microbatches = static_cast<double>(c.microbatches);
  StageCosts costs(prices.model(), prices.cluster(), MeshOf(c.axes),
                   prices.CostsFor(c.microbatches * c.dp, microbatches));
  ProblemMaker maker(costs);
  PipelineShape before;
  before.devices = static_cast<int>(c.pp);
  before.microbatches = static_cast<int>(c.microbatches);
  for (const StageEstimate& at : estimate.stages) before.times.push_back(at.times);
  PipelineShape after = before;
  Refined refined{plan};
  bool changed = false;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (task.effort.Over()) return {};
    const StageEstimate& at = estimate.stages[s];
    StageScale scale;
    scale.microbatches = microbatches;
    scale.in_flight = schedule->peak_in_flight(before, static_cast<int>(s));
    scale.bytes_per_parameter = estimate.bytes_per_parameter;
    Exact exact = Solve(maker, at, scale, share * at.room, task.fixed.recompute);
    if (exact.seconds >= (1 - kGain) * at.work) continue;
    changed = true;
    if (c.dp > 1) exact.strategies = WithDataAxis(task.model, std::move(exact.strategies));
    Stage& stage = refined.plan.stages[s];
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (!stage.strategies[n].empty()) stage.strategies[n] = std::move(exact.strategies[n]);
    }
    stage.recompute.assign(stage.recompute.size(), exact.recompute);
    stage.times = Scaled(stage.times, exact.seconds / at.work);
    after.times[s] = Scaled(at.times, exact.seconds / at.work);
  }
  if (!changed || !Verify(refined.plan, task.model).empty()) return {};
  refined.seconds = estimate.seconds - schedule->lower_bound(before) + schedule->lower_bound(after);
  return refined;
}

}  // namespace heddle
