// Clusters of unlike machines: a published test bed, and random ones after the generator of TAG (Zhang et al., IEEE TPDS
// 2023): at most four machines of 2 to 8 P100, 1080 Ti or V100, links of 8 or 20 GB/s inside, in racks with links of 5 GB/s,
// 2.81 GB/s between racks.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"

namespace heddle {

// One machine of four V100, four of two GTX 1080 Ti, two of two P100; 2.81 GB/s between machines.
Cluster TagTestbed();

// Grows until it has 16 devices, four machines, or (by a coin) twice `bytes` of memory. The same for the same arguments,
// on every machine.
Cluster RandomTopology(uint64_t seed, double bytes);

}  // namespace heddle
