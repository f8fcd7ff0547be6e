// This machine as a cluster of one node.
//
//   Discovery found = Discover(0);
//   ToYaml(found.cluster)
//
// GPUs where there are any, otherwise the cores of the processor shared evenly by ranks. What the machine does not say
// of itself is nominal; `heddle calibrate` measures what it really gives.
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

// Several CPU ranks, or one for every core where `ranks` is 0. Measures the bandwidth of memory for a moment. Throws
// InputError for more ranks than there are cores or GPUs.
Discovery Discover(int64_t ranks);

// From what is known of a machine. `bandwidth`: of its memory, bytes copied per second by all cores.
Discovery ClusterOf(const Processor& processor, double bandwidth, const FoundGpus& gpus,
                    int64_t ranks);

// The known device that NVML's name means, such as h200-sxm for "NVIDIA H200"; null where there is none.
const DeviceType* KnownGpu(const GpuInfo& gpu);

}  // namespace heddle
