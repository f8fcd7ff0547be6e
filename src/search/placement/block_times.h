// What the blocks of a model take on one device of each type, by the samples it has: what shares of the batch and stages
// are cut by.
#pragma once

#include <cstdint>
#include <vector>

#include "search/interface/search_problem.h"

namespace heddle {

int64_t DivisorUpTo(int64_t n,
                    int64_t limit);  // the largest of n that is no larger than the limit, or 1

class BlockTimes {
 public:
  // `model` is of its compute type. The batch must be known.
  BlockTimes(const SearchProblem& problem, const Model& model);

  // Seconds of forward and backward of blocks [first, last) with so many samples, on a line through what the model's whole
  // batch, and halves, quarters and eighths of it (or what divides it there), take.
  double Seconds(DeviceTypeId type, int first, int last, double samples) const;

 private:
  struct Point {
    double samples = 0;
    std::vector<double> before;  // seconds of all blocks before each, and of all
  };
  std::vector<std::vector<Point>> points_;  // by type, fewest samples first
};

// Samples for each of some devices, so that the one that ends last ends as early as it can: each sample in turn to the
// device that would then end first. seconds(i, n) is what device i takes with n samples; it must not fall with n.
// Devices may get none. O(samples x log devices).
std::vector<int64_t> ShareSamples(int64_t samples, size_t devices,
                                  const std::function<double(size_t, int64_t)>& seconds);

}  // namespace heddle
