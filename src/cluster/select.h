// A part of a cluster as a cluster of its own.
//
//   Cluster fast = Select(cluster, {0, 1, 2, 3});     // devices 0..3 of it are those of `cluster`
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

// The devices (ascending, at least one) with the groups and links they are in. Groups that lose members keep their links;
// a ring or torus that does becomes a ring.
Cluster Select(const Cluster& cluster, const std::vector<int64_t>& devices);

}  // namespace heddle
