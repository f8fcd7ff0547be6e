// What a collective puts on links, and what it takes before and beside that.
//
//   Pattern ring = RingPattern(net, group);
//   CollectiveCost cost = Choose(CollectiveKind::kAllReduce, ring, bytes, SecondsPerByte(net, ring));
//   Uncontended(net, ring, cost)        // seconds with nothing else on the links
//
// A Pattern says which part of every byte of a *volume* crosses each link; an algorithm says how large the
// volume is and how many hops follow one another. With p members, n bytes the payload that
// a member gives (plan/collective.h), all of them in one switched group with hops of latency a:
//
//   kind            algorithm   volume         latency
//   all-reduce      ring        2(p-1)/p n     2(p-1) a
//                   two-level   2(p-1)/p n     as ring, fewer hops where there are several groups
//                   tree        2 n            2 ceil(log2 p) a
//   all-gather      ring        (p-1) n        (p-1) a
//   reduce-scatter  ring        (p-1)/p n      (p-1) a
//   broadcast       ring        n              (p-1) a          in pieces, from member to member
//   all-to-all      direct      n              ceil((p-1)/kMessagesAtOnce) a
//
// time = latency + volume x max over links of share / capacity. One member: nothing.
//
// The ring over a hierarchy. As NCCL does it, there are as many rings as a group has members, and each
// leaves the group from another one of them. A device whose group holds g of the members passes
// 1/g of the volume on through its port outside and 1 - 1/g through that inside; the group's
// uplink passes the volume once out and once in. With more levels, g members in a group and h in that
// member of it that holds the device: 1/h - 1/g at the port of the group, 1/h at the outermost.
// Where k groups have g members each, inner hops take a and outer ones b:
//
//   ring       a piece passes p-1 hops of the ring, k of which are outer: (p-1-k) a + k b for g > 1,
//              once for all-gather, twice for all-reduce
//   two-level  reduce-scatter inside, all-reduce across, all-gather inside: 2(g-1) a + 2(k-1) b. Its
//              volume is taken as the ring's: outside it needs less, 2(k-1)/k n rather than 2(p-1)/p n, inside
//              more by 1/(p-1).
//   tree       2 ceil(log2 g) a + 2 ceil(log2 k) b; two trees, so that every member sends and gets
//              about 2 n (Sanders, Speck and Träff, 2009)
//
// Rings and tori pass pieces both ways along every dimension at once, so that a member's volume is spread
// evenly over its links (a bucket algorithm per dimension); members that form no box go round in
// order. Between members of a mesh it is spread over the links to all the others.
// Latencies are then counted level by level, dimension by dimension.
//
// All-to-all sends n/p straight from every member to every other. Messages start kMessagesAtOnce at a time,
// level by level: ceil((g-1)/8) a + ceil((p-g)/8) b.
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
  std::int64_t groups =
      0;  // k: parts of the smallest group around all members that hold some; p where
          // those parts are devices
  // Seconds a piece takes to reach all members, by way of
  double ring = 0;    // p-1 hops round the ring
  double levels = 0;  // a ring at every level
  double tree = 0;    // a binary tree at every level
  double direct = 0;  // messages to each of them; the only one of an all-to-all pattern
};

// The members must differ; their order does not matter. O(p) for switches, and about p log p and the
// hops of all edges for rings and tori, p^2 for meshes.
Pattern RingPattern(const Network& network,
                    std::span<const DeviceId> members);  // all but all-to-all
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
