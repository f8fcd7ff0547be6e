// The bound of all configurations: the least of their floors, of which the decisive ones are
// computed more closely.
#pragma once

#include <utility>
#include <vector>

#include "search/explore/estimate.h"
#include "search/interface/search_effort.h"

namespace heddle {

// The lowest floors with their configurations in ascending order, and the lowest of the other
// floors.
struct LowestFloors {
  std::vector<std::pair<double, Configuration>> close;
  double others = kForbidden;
  bool feasible = false;  // some configuration is estimated to fit

  double least() const {
    double floor = close.empty() ? others : close.front().first;
    return floor < kForbidden ? floor : 0;
  }
};

// A lower bound on the step of every configuration. Once the effort is over it returns the bound
// known by then.
double CloserBound(const LowestFloors& lowest, Estimator& estimator, const SearchEffort& effort);

}  // namespace heddle
