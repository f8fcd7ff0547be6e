// Which layers of a stage to recompute so that it fits: one policy for all layers, or the cheapest
// mix of two.
#pragma once

#include <cstddef>

#include "plan/policies.h"
#include "search/solver/problem.h"

namespace heddle {

// A stage with one policy for all of its layers.
struct PolicyCost {
  bool allowed = false;
  double seconds = 0, bytes = 0;
};

struct Mix {
  bool fits = false;
  size_t lax = 0, strict = 0;  // policies
  double share = 0;  // share of the layers with the strict policy; a whole number of layers
  double bytes = 0;
};

// Where no mix fits: the policy that needs least memory.
Mix CheapestMix(const PerRecomputePolicy<PolicyCost>& costs, double layers, double limit);

}  // namespace heddle
