// What a step takes over the kernels it consists of: in a step caches are cold, and memory is taken and given back; on
// an accelerator the host brings the inputs, starts the step and reads the loss.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "runtime/calibrate/calibrate.h"

namespace heddle {

struct WholeSteps {
  std::map<std::string, double, std::less<>> factors;  // by element type: instructions over kernels
  double host = 0;                                     // seconds, see LoadTimes
};

// Trains two small models in every type for a few steps on one rank of this thread and compares their steps with what
// is predicted for them with the profile: the geometric mean of the ratios. The profile's device must be one of the
// cluster's.
WholeSteps MeasureSteps(const Profile& profile, const Cluster& cluster,
                        const CalibrateOptions& options);

// Makes kernels take as many times as long; what has no type as long as those of the types take in the mean.
void Correct(LoadTimes& load, const WholeSteps& steps);

}  // namespace heddle
