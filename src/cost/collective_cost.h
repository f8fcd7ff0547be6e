// What a collective puts on links, and what it takes before and beside that.
//
//   Pattern ring = RingPattern(net, group);
//   CollectiveCost cost = Choose(CollectiveKind::kAllReduce, ring, n, SecondsPerByte(net, ring));
//   Uncontended(net, ring, cost)        // seconds with nothing else on the links
//
// A Pattern says which part of every byte of a *volume* crosses each link; an algorithm says how
// large the volume is and how many hops come one after another:
//
//   time = latency + volume x max over links of share / capacity
//
// With p members that give n bytes each (plan/collective.h), in one switched group whose hops take
// a seconds:
//
//   kind            algorithm   volume         latency
//   all-reduce      ring        2(p-1)/p n     2(p-1) a
//                   two-level   2(p-1)/p n     2(p-1) a; less in several groups, see below
//                   tree        2 n            2 ceil(log2 p) a
//   all-gather      ring        (p-1) n        (p-1) a
//   reduce-scatter  ring        (p-1)/p n      (p-1) a
//   broadcast       ring        n              (p-1) a           piece by piece along the ring
//   reduce          ring        n              (p-1) a           the same the other way
//   all-to-all      direct      n              ceil((p-1)/8) a   kMessagesAtOnce = 8
//
// and every port carries the volume, of an all-to-all (p-1)/p of it. One member: nothing at all.
//
// Groups of groups. As NCCL lays them, there are as many rings as a group has members, each leaving
// it from another one of them. Where a group holds g of the members, each of them passes 1/g of the
// volume through its port outside and 1 - 1/g through that inside; the group's uplink passes the
// volume once out and once in. With more levels: 1/h - 1/g at a port, where g of the members are in
// the group of that port and h in the device's own part of it; 1/h at the outermost. An all-to-all
// puts (g-h)/p on that port and g(p-g)/p on the uplink. For k groups of g > 1 members, with inner
// hops of a and outer ones of b >= a:
//
//   ring        a piece passes all hops of a ring but one: (p-1-k) a + k b; twice for an all-reduce
//   two-level   reduce-scatter inside, all-reduce across, all-gather inside: 2(g-1) a + 2(k-1) b.
//               Its volume is taken to be the ring's; outside it really is 2(k-1)/k n, inside 2 n
//   tree        2 ceil(log2 g) a + 2 ceil(log2 k) b. Two trees, the inner nodes of one being the
//               leaves of the other: each member sends and gets 2 n (Sanders, Speck and Träff, 2009)
//   all-to-all  ceil((g-1)/8) a + ceil((p-g)/8) b
//
// A ring or torus passes pieces both ways along every dimension, a mesh to all members at once, so
// that the volume is spread over all links: a quarter on each in a torus of 4x4 (torus_traffic.h).
// Latencies are then counted level by level and dimension by dimension, as for two-level.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cost/network.h"
#include "plan/collective.h"

namespace heddle {

constexpr int kMessagesAtOnce = 8;  // sends one NCCL kernel has under way

struct LinkLoad {
  LinkId link;
  double share = 0;  // bytes crossing this link per byte of volume

  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

struct Pattern {
  std::vector<LinkLoad> loads;  // ascending by link, each once
  std::int64_t members = 0;     // p
  // k: of what the smallest group around all members is made of, how many hold some; p where those
  // are devices.
  std::int64_t groups = 0;
  // Seconds a piece takes to reach all members, by way of
  double ring = 0;    // p-1 hops round the ring
  double levels = 0;  // a ring at every level; in a mesh a direct exchange
  double tree = 0;    // a binary tree at every level
  double direct = 0;  // messages to each of them; the only one of an all-to-all pattern
};

// The members must differ; their order does not matter. O(p) in switches, and where there is a ring
// or torus the members of that, and the hops of all routes; O(p^2) in a mesh.
// For all kinds but all-to-all.
Pattern RingPattern(const Network& network, std::span<const DeviceId> members);
Pattern AllToAllPattern(const Network& network, std::span<const DeviceId> members);

enum class Algorithm : std::uint8_t { kRing, kTwoLevel, kTree, kDirect };
constexpr std::array<std::string_view, 4> kAlgorithmNames = {"ring", "two-level", "tree", "direct"};
constexpr std::string_view Name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

struct CollectiveCost {
  Algorithm algorithm = Algorithm::kRing;
  double latency = 0;  // seconds before and beside the flow
  double volume = 0;   // bytes to multiply the pattern's shares with

  friend bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

// The cost of one algorithm, which must be one for that kind.
CollectiveCost CostOf(CollectiveKind kind, Algorithm algorithm, const Pattern& pattern,
                      double payload_bytes);
// The cheapest with nothing else on the links; of equal ones the first in the list above.
CollectiveCost Choose(CollectiveKind kind, const Pattern& pattern, double payload_bytes,
                      double bottleneck_seconds_per_byte);

// max over links of share / capacity.
double SecondsPerByte(const Network& network, const Pattern& pattern);
// latency + volume x SecondsPerByte.
double Uncontended(const Network& network, const Pattern& pattern, const CollectiveCost& cost);

}  // namespace heddle
