// The devices that the ranks of a run compute on, as chosen by --device (see accelerator.h).
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster.h"

namespace heddle {

// The cluster that a run without --cluster is planned for: so many cores of this machine, or GPUs of the kind of its
// first one. If that kind is unknown, a line on standard error says so and it is cores. The links of GPUs are nominal.
Cluster ClusterHere(const std::string& device, int64_t ranks);

// "NVIDIA H200"; empty for the CPU.
std::string DescribeDevice(const std::string& device);

// Throws InputError where ranks on that device cannot communicate through NCCL.
void RequireNccl(const std::string& device);

}  // namespace heddle
