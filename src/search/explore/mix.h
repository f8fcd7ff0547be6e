// How much of a stage to recompute so that it fits: one policy for all layers, or the cheapest mix of two.
#pragma once

#include <cstddef>

#include "plan/policies.h"
#include "search/solver/problem.h"

namespace heddle {

// A stage under one policy for all its layers.
struct PolicyCost {
  bool allowed = false;
  double seconds = 0, bytes = 0;
};

struct Mix {
  bool fits = false;
  size_t lax = 0, strict = 0;  // policies
  double share = 0;            // of the layers under the strict one: a whole number of them
  double bytes = 0;
};

// Where nothing fits: the policy that needs least.
Mix CheapestMix(const PerRecomputePolicy<PolicyCost>& costs, double layers, double limit);

}  // namespace heddle
