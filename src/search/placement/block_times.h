// The time of a model's blocks on one device of each type by the number of samples, from which
// shares of the batch and stages are cut.
#pragma once

#include <cstdint>
#include <vector>

#include "search/interface/search_problem.h"

namespace heddle {

int64_t DivisorUpTo(int64_t n,
                    int64_t limit);  // the largest divisor of n up to the limit, or 1

class BlockTimes {
 public:
  // `model` has its compute type. The batch must be known.
  BlockTimes(const SearchProblem& problem, const Model& model);

  // Seconds of forward and backward of blocks [first, last) with so many samples: interpolated
  // between the times for the whole batch and its halves, quarters and eighths (or the next smaller
  // divisors).
  double Seconds(DeviceTypeId type, int first, int last, double samples) const;

 private:
  struct Point {
    double samples = 0;
    std::vector<double> before;  // prefix sums over blocks
  };
  std::vector<std::vector<Point>> points_;  // by type, in ascending order of samples
};

// Distributes samples so that the device that ends last ends as early as possible: each sample in
// turn goes to the device that would then end first. seconds(i, n) is the time of device i for n
// samples and must not decrease with n. Devices may get none. O(samples x log devices).
std::vector<int64_t> ShareSamples(int64_t samples, size_t devices,
                                  const std::function<double(size_t, int64_t)>& seconds);

}  // namespace heddle
