// What a step takes over the kernels it consists of: in a step caches are cold, and memory is taken and given back.
#pragma once

#include "cluster/cluster.h"
#include "cluster/profile.h"

namespace heddle {

// Trains two small models for a few steps on one rank of this thread and returns the time of their steps over what is
// predicted for them with the profile: the geometric mean. The profile's device must be one of the cluster's.
double StepOverKernels(const Profile& profile, const Cluster& cluster, int threads);

// Makes kernels take `factor` times as long.
void SlowDown(LoadTimes& load, double factor);

}  // namespace heddle
