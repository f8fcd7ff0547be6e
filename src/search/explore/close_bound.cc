#include "search/explore/close_bound.h"

#include <algorithm>

#include "base/log.h"
#include "base/parallel.h"

namespace heddle {

// In the order of the floors, until none that is left is lower than the closest. Estimates may be below floors: they do not say
// which floors are high enough.
double CloserBound(const LowestFloors& lowest, Estimator& estimator, const SearchEffort& effort) {
  constexpr size_t kAtOnce = 4;  // on any number of cores
  if (!lowest.feasible) return lowest.least();
  size_t looked = 0;
  double least = kForbidden;  // of those looked at
  while (looked < lowest.close.size() && !effort.Over()) {
    if (lowest.close[looked].first >= least) break;
    size_t count = std::min(kAtOnce, lowest.close.size() - looked);
    std::vector<double> floors(count);
    InParallel(count, [&](size_t i) {
      const auto& [floor, configuration] = lowest.close[looked + i];
      floors[i] = std::max(floor, estimator.CloseFloor(configuration));
    });
    for (size_t i = 0; i < count; ++i) {
      LogDebug("floor {:.6g} s, closely: {}", floors[i], ToString(lowest.close[looked + i].second));
      least = std::min(least, floors[i]);
    }
    looked += count;
  }
  double rest = looked < lowest.close.size() ? lowest.close[looked].first : lowest.others;
  least = std::min(least, rest);
  return least < kForbidden ? least : 0;
}

}  // namespace heddle
