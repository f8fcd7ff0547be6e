#include "search/explore/close_bound.h"

#include <algorithm>

#include "base/log.h"
#include "base/parallel.h"

namespace heddle {

// Computes closer floors in ascending order of the floors, until no remaining floor is below the
// least closer floor. Estimates may be below floors, so they cannot decide which floors are high
// enough.
double CloserBound(const LowestFloors& lowest, Estimator& estimator, const SearchEffort& effort) {
  constexpr size_t kAtOnce = 4;  // independent of the number of cores
  if (!lowest.feasible) return lowest.least();
  size_t looked = 0;
  double least = kForbidden;  // of the closer floors so far
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
