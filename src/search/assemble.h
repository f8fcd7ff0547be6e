// A configuration and its estimate as a plan.
#pragma once

#include "search/estimate.h"

namespace heddle {

// Sound (plan/verify.h) but for the model's source, which is the caller's to fill in.
Plan Assemble(const SearchProblem& problem, Prices& prices, Estimator& estimator,
              const Configuration& configuration, const Estimate& estimate);

// What a plan without strategies needs to know of a problem: cluster, batch, precision.
Plan StartPlan(const SearchProblem& problem);

// The degrees of the plan's heaviest block, by what its axes split there.
struct PlanDegrees {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  bool sp = false;
  std::optional<RecomputePolicy> recompute;  // none: mixed
};
PlanDegrees DegreesOf(const Model& model, const Plan& plan);

}  // namespace heddle
