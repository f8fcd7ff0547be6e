// Clusters for the tests of several modules.
#pragma once

#include "cluster/yaml.h"

namespace heddle {

// Two machines of one device each; the rates and the memory bandwidth of the first are four times those of the second.
inline Cluster FastAndSlow() {
  return ClusterFromYaml(
      "device_types:\n"
      "  - {name: fast, memory: 32 GiB, memory_bandwidth: 800 GB/s, fp32: 40 TFLOP/s}\n"
      "  - {name: slow, memory: 32 GiB, memory_bandwidth: 200 GB/s, fp32: 10 TFLOP/s}\n"
      "link: {name: wide, bandwidth: 1 TB/s, latency: 1 us}\n"
      "nodes:\n"
      "  - {name: a, count: 1, device: fast, devices: 1}\n"
      "  - {name: b, count: 1, device: slow, devices: 1}\n",
      "pair");
}

}  // namespace heddle
