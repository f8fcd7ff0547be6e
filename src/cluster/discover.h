// Describes this machine as a cluster of one node.
//
//   Discovery found = Discover(0);
//   ToYaml(found.cluster)
//
// The devices are the GPUs where there are any, otherwise CPU ranks that share the cores evenly. Figures that the
// machine does not report are nominal; `heddle calibrate` measures them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/machine.h"
#include "cluster/nvml.h"

namespace heddle {

struct Discovery {
  Cluster cluster;
  std::vector<std::string> remarks;  // what is not known, and why
};

// Discovers this machine with `ranks` CPU ranks, or one per core where `ranks` is 0. Measures the memory bandwidth for
// a moment. Throws an InputError where there are fewer cores or GPUs than ranks.
Discovery Discover(int64_t ranks);

// The same from given facts. `bandwidth` is that of the memory: bytes per second that all cores together copy.
Discovery ClusterOf(const Processor& processor, double bandwidth, const FoundGpus& gpus,
                    int64_t ranks);

// The known device with the given NVML name, such as h200-sxm for "NVIDIA H200"; null where there is none.
const DeviceType* KnownGpu(const GpuInfo& gpu);

}  // namespace heddle
