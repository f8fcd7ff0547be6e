// Selects a part of a cluster as a separate cluster.
//
//   Cluster fast = Select(cluster, {0, 1, 2, 3});     // devices 0..3 of it are those of `cluster`
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

// The given devices (ascending, at least one) with the groups and links that contain them. Groups that lose members
// keep their links; a ring or torus that loses members becomes a ring.
Cluster Select(const Cluster& cluster, const std::vector<int64_t>& devices);

}  // namespace heddle
