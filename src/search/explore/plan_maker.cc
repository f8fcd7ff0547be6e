#include "search/explore/plan_maker.h"

#include <algorithm>

#include "plan/precision.h"
#include "schedule/schedule.h"
#include "search/explore/assemble.h"
#include "search/explore/pipeline_step.h"
#include "search/explore/refine.h"
#include "search/judge/bucket_sizes.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

// Plans of one kind have similar errors in their estimates (Proposal::kind).
std::vector<int64_t> KindOfConfiguration(const Configuration& c, bool plain, bool by_links) {
  return {c.dp > 1 ? c.zero : 0,
          static_cast<int64_t>(c.offload),
          !plain,
          c.dp > 1,
          static_cast<int64_t>(c.axes.size()),
          c.pp > 1,
          c.chunks > 1,
          c.pp > 1 && FindSchedule(c.schedule)->splits_backward,
          c.pp > 1 && c.schedule == "gpipe",
          false,
          by_links};
}

}  // namespace

PlanMaker::PlanMaker(const SearchTask& task, ProblemSolver solver)
    : task_(task),
      model_(WithComputeType(task.model, task.precision)),
      prices_(model_, task.cluster, PriceOptionsOf(task, std::move(solver))),
      estimator_(task_, prices_),
      hash_(StableHash(task_.model.graph)) {}

Estimate PlanMaker::BestCut(const Configuration& c) {
  Estimate best = estimator_.Of(c);
  if (!best.by_links) return best;
  std::vector<Estimate> moved = MovedLayers(c, best);
  return moved.empty() || moved.front().seconds >= best.seconds ? best : std::move(moved.front());
}

Proposal PlanMaker::ProposeLater(const WeighedConfiguration& at) {
  Proposal out;
  out.from = NameOf(at.configuration, at.bucket_bytes);
  out.estimate = at.seconds;
  out.bytes = at.bytes;
  out.bound = at.floor;
  out.kind = KindOfConfiguration(at.configuration, at.plain, at.by_links);
  out.spread = at.by_links ? kSpreadByLinks : 0;
  const Configuration& c = at.configuration;
  out.work = SimulationSize(task_, c.microbatches, c.pp, c.schedule);
  out.make = [self = shared_from_this(), c, floor = at.floor](Proposal& proposal) {
    Proposal made = self->Propose(c, self->BestCut(c), floor);
    proposal.plan = std::move(made.plan);
    proposal.refit = std::move(made.refit);
    proposal.improve = std::move(made.improve);
  };
  return out;
}

std::string PlanMaker::NameOf(const Configuration& c, int64_t bucket_bytes) const {
  std::string name = ToString(c);
  if (bucket_bytes != task_.bucket_bytes) name += BucketsInWords(bucket_bytes);
  return name;
}

Proposal PlanMaker::Propose(const Configuration& c, const Estimate& estimate, double floor) {
  Proposal out;
  out.plan = Assemble(task_, hash_, prices_, estimator_, c, estimate);
  out.kind = KindOfConfiguration(c, estimate.plain, estimate.by_links);
  out.spread = estimate.by_links ? kSpreadByLinks : 0;
  out.from = NameOf(c, estimate.bucket_bytes);
  out.estimate = estimate.seconds;
  out.bytes = estimate.bytes;
  out.bound = floor;
  out.refit = [self = shared_from_this(), c, estimate,
               floor](const std::vector<double>& reserved) -> std::optional<Proposal> {
    std::optional<Estimate> other = self->estimator_.Refitted(c, estimate, reserved);
    if (!other || !other->fits) return std::nullopt;
    return self->Propose(c, *other, floor);
  };
  // Searches with another solver compare solvers.
  if (has_own_solver()) return out;
  out.improve = [self = shared_from_this(), c, estimate, floor] {
    return self->RefinedPlans(c, estimate, floor);
  };
  return out;
}

// Plans with the stages solved again, exactly, for the memory they may use.
std::vector<Proposal> PlanMaker::RefinedPlans(const Configuration& c, const Estimate& estimate,
                                              double floor) {
  std::vector<Proposal> plans;
  if (estimate.by_links) plans = RecutPlans(c, estimate, floor);
  if (estimate.plain && estimate.memory_level == 0) return plans;
  Plan plan = Assemble(task_, hash_, prices_, estimator_, c, estimate);
  std::optional<Proposal> refined = RefinedPlan(c, estimate, floor, plan, 1);
  if (refined) plans.push_back(std::move(*refined));
  return plans;
}

// Estimates with a layer moved from one stage to another, in ascending order.
std::vector<Estimate> PlanMaker::MovedLayers(const Configuration& c, const Estimate& estimate) {
  constexpr size_t kMostStages = 16;
  const size_t stages = estimate.stages.size();
  bool fixed = !task_.fixed.layers_per_stage.empty() || c.chunks > 1;
  if (fixed || stages < 2 || stages > kMostStages) return {};
  std::vector<int> ends;
  for (const StageEstimate& stage : estimate.stages) ends.push_back(stage.last_block);
  const std::vector<int64_t> layers = LayersPerStage(model_, ends);
  std::vector<Estimate> others;
  for (size_t from = 0; from < layers.size(); ++from) {
    for (size_t to = 0; to < layers.size() && layers[from] > 1; ++to) {
      if (to == from) continue;
      std::vector<int64_t> moved = layers;
      --moved[from];
      ++moved[to];
      Estimate other = estimator_.CutAt(c, estimate, StageEnds(model_, moved, stages));
      if (other.fits) others.push_back(std::move(other));
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Estimate& a, const Estimate& b) { return a.seconds < b.seconds; });
  return others;
}

// Plans with a layer moved. Which cut is best depends on how messages collide, which estimates model only roughly.
std::vector<Proposal> PlanMaker::RecutPlans(const Configuration& c, const Estimate& estimate,
                                            double floor) {
  constexpr size_t kMost = 12;
  std::vector<Estimate> others = MovedLayers(c, estimate);
  std::vector<Proposal> plans;
  for (size_t i = 0; i < std::min(kMost, others.size()); ++i) {
    plans.push_back(Propose(c, others[i], floor));
    plans.back().from += ", a layer moved";
  }
  return plans;
}

// `share`: of the memory that the estimate allowed. A plan that reserves too much memory is solved
// again with a smaller share.
std::optional<Proposal> PlanMaker::RefinedPlan(const Configuration& c, const Estimate& estimate,
                                               double floor, const Plan& plan, double share) {
  std::optional<Refined> refined = Refine(task_, prices_, c, estimate, plan, share);
  if (!refined) return std::nullopt;
  Proposal out;
  out.plan = std::move(refined->plan);
  out.from = NameOf(c, estimate.bucket_bytes) + ", made to fit";
  out.estimate = refined->seconds;
  out.bytes = share * kMemoryOptimism * static_cast<double>(MemoryLimit(task_));
  out.bound = floor;
  out.refit = [self = shared_from_this(), c, estimate, floor, plan,
               share](const std::vector<double>& reserved) -> std::optional<Proposal> {
    auto limit = static_cast<double>(MemoryLimit(self->task_));
    double most = *std::max_element(reserved.begin(), reserved.end());
    if (most <= limit) return std::nullopt;
    return self->RefinedPlan(c, estimate, floor, plan, share * (2 - most / limit));
  };
  return out;
}

}  // namespace heddle
