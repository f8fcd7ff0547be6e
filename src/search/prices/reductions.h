// The collectives that reduce gradients in a step: their number, and how long a device waits for
// them after its last backward.
//
//   GradientGroups groups(model);
//   double seconds = elements * (per_element + latency * groups.PerElement(bucket_elements, /*parts=*/2));
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "schedule/schedule.h"

namespace heddle {

// A parameter that fills a bucket is reduced alone, the others together
// (program/parameter_groups.h).
class GradientGroups {
 public:
  explicit GradientGroups(const Model& model);

  // Collectives per parameter element on a device, where parameters are split into `parts`.
  double PerElement(double bucket_elements, double parts) const;

 private:
  std::vector<double> sizes_;  // in ascending order
  std::vector<double> sums_;   // prefix sums of the sizes
  double total_ = 0;
};

// Seconds from a device's last backward to the end of its reductions. `reduce` has the reduction
// times of its stages in the order of the chunks. The reductions of a stage begin with its last
// backward. The last backwards of a later chunk precede those of `devices` micro-batches through
// every earlier chunk (schedule/interleaved.cc).
double ExposedReduction(const PipelineShape& shape, int device, const std::vector<double>& reduce);

}  // namespace heddle
