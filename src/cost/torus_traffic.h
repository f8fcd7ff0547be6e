// What collectives put on the links of a ring or torus: the part of collective patterns that lies
// inside one group of that topology. A ring is a torus of one dimension.
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

// A member of the torus in which some members of the collective lie.
struct TorusPart {
  std::int64_t member = 0;
  std::int64_t devices = 0;  // of the collective
  double volume = 1;         // bytes a ring passes on from it, per byte of volume
};

// How long a piece travels to reach all parts: so many steps, of so many hops altogether.
struct TorusSteps {
  std::int64_t steps = 0;
  std::int64_t hops = 0;
};

// Ring collectives. Where the parts form a box, a product of sets of coordinates, pieces go round
// each dimension both ways, and each dimension gets a part of the volume in proportion to what it
// can take: two where neighbours lie less than half the way round from each other, one otherwise (a
// line has to send back over its own links what a ring passes on at its end). That spreads the
// volume evenly over the links in use. Parts that form no box go round in order, both ways.
// Appends loads, ascending by link. O(members of the torus + hops).
TorusSteps AppendRingTraffic(const Network& network, const Network::Spot& spot,
                             std::span<const TorusPart> parts, std::vector<LinkLoad>& loads);

// Every device of a part sends `bytes_each` to every device of every other part, each message along
// its route. Exact and quick: dimensions are passed in turn, so that on a line the traffic from x
// to y is the product of what starts at x and what is bound for y. Appends loads, ascending by
// link. O(members of the torus x dimensions).
void AppendAllToAllTraffic(const Network& network, const Network::Spot& spot,
                           std::span<const TorusPart> parts, double bytes_each,
                           std::vector<LinkLoad>& loads);

}  // namespace heddle
