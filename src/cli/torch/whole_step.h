// What a step takes over the kernels it consists of: in a step caches are cold, and memory is taken and given back.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "runtime/calibrate/calibrate.h"

namespace heddle {

// By element type.
using StepFactors = std::map<std::string, double, std::less<>>;

// Trains two small models in every type for a few steps on one rank of this thread and returns the time of their steps
// over what is predicted for them with the profile: the geometric mean. The profile's device must be one of the
// cluster's.
StepFactors StepsOverKernels(const Profile& profile, const Cluster& cluster,
                             const CalibrateOptions& options);

// Makes kernels take `factors` times as long; what has no type as long as those of the types take in the mean.
void SlowDown(LoadTimes& load, const StepFactors& factors);

}  // namespace heddle
