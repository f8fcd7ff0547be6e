// How a value arrives from another stage. Devices that need the same of it, and are joined by faster links than those
// it comes over, receive a slice each and gather the rest among themselves (the scatter/gather of Narayanan et al.,
// SC'21): p times fewer bytes over the slow links.
//
//   [8/dp, 2048, 12288] on dp 2 x tp 8, a node each     arrives as [8/dp, 2048/tp, 12288]
#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "plan/sharding.h"

namespace heddle {

// `wanted`, complete, split further along the axes over which it is replicated, where they divide a dimension evenly
// and their links are faster than those that lead out of the mesh. In normal form.
Sharding Arriving(const Cluster& cluster, const Mesh& mesh, const Sharding& wanted);

// The bandwidths that decide it: out of the mesh (0: it has no neighbour), and then along each axis. Meshes with equal
// axes and equal links let everything arrive alike.
std::vector<double> LinksOfArrival(const Cluster& cluster, const Mesh& mesh);

}  // namespace heddle
