// The collectives a plan may ask for. Members of a group are ordered; p is their number.
//
//   kind            every member gives       every member gets
//   all-reduce      n elements               the n sums (or maxima) over members
//   all-gather      n elements               p*n: member i's at [i*n, (i+1)*n)
//   reduce-scatter  p*n elements             n: member i gets the sums of [i*n, (i+1)*n)
//   all-to-all      p*n elements             p*n: at [i*n, (i+1)*n) what member i had for it
//   broadcast       n elements (the first)   member 0's n elements
//   reduce          n elements               the first: the n sums (or maxima) over members; the others nothing
//
// Transports count the payload that each member hands over; what crosses the wire depends on the algorithm
// and is priced elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heddle {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce
};
constexpr std::array<std::string_view, 6> kCollectiveNames = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce"};
constexpr std::string_view Name(CollectiveKind kind) {
  return kCollectiveNames[static_cast<size_t>(kind)];
}

enum class Reduction : uint8_t { kSum, kMax };

}  // namespace heddle
