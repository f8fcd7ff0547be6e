// The collectives that reduce the gradients of a step: how many there are, and how long a device waits for them after its last
// backward.
//
//   GradientGroups groups(model);
//   double seconds = elements * (per_element + latency * groups.PerElement(bucket_elements, /*parts=*/2));
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "schedule/schedule.h"

namespace heddle {

// Parameters that fill a bucket are reduced each by itself, the others together (program/parameter_groups.h).
class GradientGroups {
 public:
  explicit GradientGroups(const Model& model);

  // Collectives for each parameter element on a device, where parameters are split into so many parts.
  double PerElement(double bucket_elements, double parts) const;

 private:
  std::vector<double> sizes_;  // ascending
  std::vector<double> sums_;   // of the sizes before each
  double total_ = 0;
};

// Seconds between a device's last backward and the end of its reductions. `reduce` has those of its stages, in the order of its
// chunks. The reductions of a stage begin with its last backward, and the last backwards of a later chunk come before those of
// `devices` micro-batches through every earlier one (schedule/interleaved.cc).
double ExposedReduction(const PipelineShape& shape, int device, const std::vector<double>& reduce);

}  // namespace heddle
