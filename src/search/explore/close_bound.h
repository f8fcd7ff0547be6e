// The bound of all configurations: the least of their floors, with those that decide it computed more closely.
#pragma once

#include <utility>
#include <vector>

#include "search/explore/estimate.h"
#include "search/interface/search_effort.h"

namespace heddle {

// Floors of configurations, the lowest first, and the lowest of those that are not among them.
struct LowestFloors {
  std::vector<std::pair<double, Configuration>> close;
  double others = kForbidden;
  bool feasible = false;  // some configuration is estimated to fit

  double least() const {
    double floor = close.empty() ? others : close.front().first;
    return floor < kForbidden ? floor : 0;
  }
};

// No configuration is faster. Ends early, with what is known by then, once the effort is over.
double CloserBound(const LowestFloors& lowest, Estimator& estimator, const SearchEffort& effort);

}  // namespace heddle
