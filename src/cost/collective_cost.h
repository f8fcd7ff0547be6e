// The cost of collectives: their traffic on every link, and their latency.
//
//   Pattern ring = RingPattern(net, group);
//   CollectiveCost cost = Choose(CollectiveKind::kAllReduce, ring, n, SecondsPerByte(net, ring));
//   Uncontended(net, ring, cost)        // seconds without other traffic on the links
//
// A Pattern gives for each link which fraction of every byte of a *volume* crosses it. An algorithm determines how
// large the volume is and how many hops are sequential:
//
//   time = latency + volume x max over links of share / capacity
//
// With p members that give n bytes each (plan/collective.h), in one switched group with a latency of a seconds per hop:
//
//   kind            algorithm   volume         latency
//   all-reduce      ring        2(p-1)/p n     2(p-1) a
//                   two-level   2(p-1)/p n     2(p-1) a; less in several groups, see below
//                   tree        2 n            2 ceil(log2 p) a
//   all-gather      ring        (p-1) n        (p-1) a
//   reduce-scatter  ring        (p-1)/p n      (p-1) a
//   broadcast       ring        n              (p-1) a           in pieces along the ring
//   reduce          ring        n              (p-1) a           the same in the other direction
//   all-to-all      direct      n              ceil((p-1)/8) a   kMessagesAtOnce = 8
//
// Every port carries the whole volume; in an all-to-all it carries (p-1)/p of it. One member causes no traffic.
//
// Groups of groups. As in NCCL, there are as many rings as a group has members, and each ring leaves the group from
// another member. Where a group contains g of the members, each of them sends 1/g of the volume through its port
// outside of the group and 1 - 1/g through its port inside; the group's uplink carries the volume once out and once in.
// With more levels the share is 1/h - 1/g at a port, where the group of that port contains g of the members and the
// device's own part of it contains h; at the outermost level it is 1/h. An all-to-all puts (g-h)/p on that port and
// g(p-g)/p on the uplink. For k groups of g > 1 members, with inner hops of a seconds and outer hops of b >= a seconds:
//
//   ring        a piece passes all hops of a ring but one: (p-1-k) a + k b; twice for an all-reduce
//   two-level   reduce-scatter inside, all-reduce across, all-gather inside: 2(g-1) a + 2(k-1) b.
//               The model uses the ring's volume; the actual volume is 2(k-1)/k n outside and 2 n inside
//   tree        2 ceil(log2 g) a + 2 ceil(log2 k) b. Two trees, where the inner nodes of one are the
//               leaves of the other: each member sends and receives 2 n (Sanders, Speck and Träff, 2009)
//   all-to-all  ceil((g-1)/8) a + ceil((p-g)/8) b
//
// A ring or torus sends pieces in both directions of every dimension, and a mesh sends to all members at once, so the
// volume is spread over all links: a quarter on each in a torus of 4x4 (torus_traffic.h). Latencies are then counted
// for each level and each dimension, as for two-level.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cost/network.h"
#include "plan/collective.h"

namespace heddle {

constexpr int kMessagesAtOnce = 8;  // sends that one NCCL kernel has in progress

struct LinkLoad {
  LinkId link;
  double share = 0;  // bytes crossing this link per byte of volume

  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

struct Pattern {
  std::vector<LinkLoad> loads;  // ascending by link, each link once
  std::int64_t members = 0;     // p
  // k: the number of parts that contain members, among the parts of the smallest group around all members; p where
  // those parts are devices.
  std::int64_t groups = 0;
  // Seconds until a piece has reached all members, by each algorithm:
  double ring = 0;    // p-1 hops along the ring
  double levels = 0;  // a ring at every level; in a mesh a direct exchange
  double tree = 0;    // a binary tree at every level
  double direct = 0;  // messages to each member; the only value of an all-to-all pattern
};

// The pattern of all kinds but all-to-all. The members must differ; their order does not matter. O(p) for switches; in
// a ring or torus also the members of the torus and the hops of all routes; O(p^2) in a mesh.
Pattern RingPattern(const Network& network, std::span<const DeviceId> members);
Pattern AllToAllPattern(const Network& network, std::span<const DeviceId> members);

enum class Algorithm : std::uint8_t { kRing, kTwoLevel, kTree, kDirect };
constexpr std::array<std::string_view, 4> kAlgorithmNames = {"ring", "two-level", "tree", "direct"};
constexpr std::string_view Name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

struct CollectiveCost {
  Algorithm algorithm = Algorithm::kRing;
  double latency = 0;  // seconds that are independent of the volume
  double volume = 0;   // bytes, to be multiplied by the pattern's shares

  friend bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

// The cost of one algorithm, which must support that kind.
CollectiveCost CostOf(CollectiveKind kind, Algorithm algorithm, const Pattern& pattern,
                      double payload_bytes);
// The algorithm with the lowest cost on idle links; of equal ones the first in the list above.
CollectiveCost Choose(CollectiveKind kind, const Pattern& pattern, double payload_bytes,
                      double bottleneck_seconds_per_byte);

// The maximum over links of share / capacity.
double SecondsPerByte(const Network& network, const Pattern& pattern);
// latency + volume x SecondsPerByte: the seconds on idle links.
double Uncontended(const Network& network, const Pattern& pattern, const CollectiveCost& cost);

}  // namespace heddle
