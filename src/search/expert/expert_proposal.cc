// Proposals of the expert's plans with the estimated recomputation.
#include <algorithm>

#include "base/error.h"
#include "search/expert/expert_estimate.h"
#include "search/explore/pipeline_step.h"

namespace heddle {

namespace {

// Sets the estimate's policies: in each stage the first layers have the stricter one.
void SetPolicies(const Model& model, const ExpertEstimate& estimate, Plan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageRecomputation& at = estimate.stages[s];
    Stage& stage = plan.stages[s];
    int64_t left = at.strict_layers;
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      bool strict = model.blocks[static_cast<size_t>(b)].chain >= 0 && left > 0;
      if (strict) --left;
      stage.recompute[static_cast<size_t>(b - stage.first_block)] = strict ? at.strict : at.lax;
    }
  }
}

std::optional<Proposal> Fitted(std::shared_ptr<ExpertEstimator> estimator, const Degrees& d,
                               Plan plan, std::string from, const std::vector<double>& beyond) {
  std::vector<int> ends;
  for (const Stage& stage : plan.stages) ends.push_back(stage.last_block);
  ExpertEstimate estimate = estimator->Of(d, ends, beyond);
  if (!estimate.known) return std::nullopt;
  SetPolicies(estimator->problem().model, estimate, plan);
  plan.bucket_bytes = estimate.bucket_bytes;
  Proposal proposal{plan, from, estimate.seconds, estimate.bytes, 0};
  proposal.spread = estimate.by_links ? kSpreadByLinks : 0;
  if (estimator->problem().fixed.recompute) return proposal;
  proposal.refit = [=, plan = std::move(plan)](const std::vector<double>& reserved) {
    std::vector<double> more = beyond;
    more.resize(estimate.by_device.size());
    for (size_t i = 0; i < std::min(more.size(), reserved.size()); ++i) {
      more[i] += reserved[i] - estimate.by_device[i];
    }
    std::optional<Proposal> next = Fitted(estimator, d, plan, from, more);
    bool same = next && std::equal(plan.stages.begin(), plan.stages.end(),
                                   next->plan.stages.begin(), [](const Stage& a, const Stage& b) {
                                     return a.recompute == b.recompute;
                                   });
    return same ? std::nullopt : next;
  };
  return proposal;
}

}  // namespace

std::optional<Proposal> ProposeExpert(std::shared_ptr<ExpertEstimator> estimator, const Degrees& d,
                                      std::string from) {
  const SearchProblem& problem = estimator->problem();
  Plan plan;
  try {
    plan = ExpertPlan(problem.model, problem.cluster, d);
  } catch (const InputError&) {
    return std::nullopt;
  }
  plan.bucket_bytes = problem.bucket_bytes;
  if (SplitsWhole(problem, plan)) return std::nullopt;
  return Fitted(std::move(estimator), d, std::move(plan), std::move(from), {});
}

bool SplitsWhole(const SearchProblem& problem, const Plan& plan) {
  const Model& model = problem.model;
  auto whole = [&](ValueId id) {
    const Value& value = model.graph.value(id);
    return value.kind == ValueKind::kParameter &&
           std::find(problem.whole.begin(), problem.whole.end(), value.name) != problem.whole.end();
  };
  if (problem.whole.empty()) return false;
  for (const Stage& stage : plan.stages) {
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (stage.strategies[n].empty()) continue;
      const std::vector<ValueId>& operands = model.graph.nodes[n].operands;
      for (size_t o = 0; o < operands.size(); ++o) {
        if (!whole(operands[o])) continue;
        Sharding stored = OperandSharding(stage.mesh, model.rules[n], stage.strategies[n], o);
        if (stored.split_axes() != 0) return true;
      }
    }
  }
  return false;
}

}  // namespace heddle
