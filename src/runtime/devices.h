// What the ranks of a run compute on, by what --device says (see accelerator.h).
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster.h"

namespace heddle {

// What a run is planned for where nobody says: so many cores of this machine, or GPUs like its first. Of GPUs the kind
// must be known (else a line says so, and it is cores); their links are nominal.
Cluster ClusterHere(const std::string& device, int64_t ranks);

// "NVIDIA H200"; empty for the CPU.
std::string DescribeDevice(const std::string& device);

// Throws InputError where ranks on that device cannot talk through NCCL.
void RequireNccl(const std::string& device);

}  // namespace heddle
