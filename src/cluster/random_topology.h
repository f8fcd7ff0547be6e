// Clusters of different machines: a published testbed, and random clusters after the generator of TAG (Zhang et al.,
// IEEE TPDS 2023). These have at most four machines of 2 to 8 P100, 1080 Ti or V100 with internal links of 8 or 20
// GB/s, in racks with links of 5 GB/s, and 2.81 GB/s between racks.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"

namespace heddle {

// One machine of four V100, four machines of two GTX 1080 Ti, and two of two P100, with 2.81 GB/s between machines.
Cluster TagTestbed();

// Adds machines until there are 16 devices, four machines, or, at random, twice `bytes` of memory. The result depends
// only on the arguments and is the same on every machine.
Cluster RandomTopology(uint64_t seed, double bytes);

}  // namespace heddle
