// Pictures of clusters for users.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace heddle {

// Draws the tree of groups with their links, equal groups once with a count, and then a table of the devices:
//
//   dgx-h100:16: 128 devices, 10.0 TiB of device memory
//   │  joined by a switch: infiniband, 50 GB/s a device, 5 us
//   └─ 16 x node dgx-h100  (d0..d127)
//      │  joined by a switch: nvlink4, 450 GB/s a device, 3 us
//      │  uplink 400 GB/s, 50 GB/s a device, host memory 2 TiB
//      └─ 8 x h100-sxm
std::string DrawCluster(const Cluster& cluster);

// The list of presets, one line each.
std::string DrawPresets();

}  // namespace heddle
