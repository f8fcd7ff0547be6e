// The traffic of collectives on the links of a ring or torus: the part of a pattern that lies inside one group of that
// topology. A ring is a torus of one dimension.
//
//   16 members in a torus of 4x4, all of them in the group: each has four links out, and a ring
//   collective puts a quarter of its volume on every one
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/collective_cost.h"
#include "cost/network.h"

namespace heddle {

// A member of the torus that contains members of the collective.
struct TorusPart {
  std::int64_t member = 0;
  std::int64_t devices = 0;  // number of members of the collective
  double volume = 1;         // bytes that a ring sends on from it, per byte of volume
};

// How long a piece travels to reach all parts: the number of steps, and their hops altogether.
struct TorusSteps {
  std::int64_t steps = 0;
  std::int64_t hops = 0;
};

// Ring collectives. Where the parts form a box, a product of sets of coordinates, pieces go around each dimension in
// both directions, and each dimension gets a part of the volume in proportion to its capacity: two directions where
// neighbours are less than half of the ring apart, one otherwise (a line has to send back over its own links what a
// ring would forward at its end). That spreads the volume evenly over the links in use. Parts that do not form a box
// are visited in order, in both directions. Appends loads, ascending by link. O(members of the torus + hops).
TorusSteps AppendRingTraffic(const Network& network, const Network::Spot& spot,
                             std::span<const TorusPart> parts, std::vector<LinkLoad>& loads);

// Every device of a part sends `bytes_each` to every device of every other part, each message along its route. The
// result is exact: dimensions are passed in turn, so that on a line the traffic from x to y is the product of what
// starts at x and what is destined for y. Appends loads, ascending by link. O(members of the torus x dimensions).
void AppendAllToAllTraffic(const Network& network, const Network::Spot& spot,
                           std::span<const TorusPart> parts, double bytes_each,
                           std::vector<LinkLoad>& loads);

}  // namespace heddle
