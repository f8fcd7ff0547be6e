#include "cost/collective_cost.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

std::span<const Algorithm> AlgorithmsFor(CollectiveKind kind) {
  static constexpr Algorithm kReduce[] = {Algorithm::kRing, Algorithm::kTwoLevel, Algorithm::kTree};
  static constexpr Algorithm kRound[] = {Algorithm::kRing};
  static constexpr Algorithm kExchange[] = {Algorithm::kDirect};
  if (kind == CollectiveKind::kAllReduce) return kReduce;
  if (kind == CollectiveKind::kAllToAll) return kExchange;
  return kRound;
}

// Bytes that cross each edge of the ring.
double RingVolume(CollectiveKind kind, double p, double n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (p - 1) / p * n;
    case CollectiveKind::kAllGather:
      return (p - 1) * n;
    case CollectiveKind::kReduceScatter:
      return (p - 1) / p * n;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kAllToAll:
      break;
  }
  return n;
}

}  // namespace

CollectiveCost CostOf(CollectiveKind kind, Algorithm algorithm, const Pattern& pattern,
                      double payload_bytes) {
  const auto allowed = AlgorithmsFor(kind);
  HEDDLE_CHECK(std::find(allowed.begin(), allowed.end(), algorithm) != allowed.end(), "{} by {}",
               Name(kind), Name(algorithm));
  CollectiveCost cost{algorithm, 0, 0};
  if (pattern.members <= 1) return cost;
  const int passes = kind == CollectiveKind::kAllReduce ? 2 : 1;
  cost.volume = RingVolume(kind, static_cast<double>(pattern.members), payload_bytes);
  switch (algorithm) {
    case Algorithm::kRing:
      cost.latency = passes * pattern.ring;
      break;
    case Algorithm::kTwoLevel:
      cost.latency = passes * pattern.levels;
      break;
    case Algorithm::kTree:
      cost.latency = passes * pattern.tree;
      cost.volume = passes * payload_bytes;
      break;
    case Algorithm::kDirect:
      cost.latency = pattern.direct;
      break;
  }
  return cost;
}

CollectiveCost Choose(CollectiveKind kind, const Pattern& pattern, double payload_bytes,
                      double bottleneck_seconds_per_byte) {
  const auto seconds = [&](const CollectiveCost& cost) {
    return cost.latency + cost.volume * bottleneck_seconds_per_byte;
  };
  const auto algorithms = AlgorithmsFor(kind);
  CollectiveCost best = CostOf(kind, algorithms[0], pattern, payload_bytes);
  for (const Algorithm algorithm : algorithms.subspan(1)) {
    const CollectiveCost cost = CostOf(kind, algorithm, pattern, payload_bytes);
    if (seconds(cost) < seconds(best)) best = cost;
  }
  return best;
}

double SecondsPerByte(const Network& network, const Pattern& pattern) {
  double most = 0;
  for (const LinkLoad& load : pattern.loads) {
    most = std::max(most, load.share / network.capacity(load.link));
  }
  return most;
}

double Uncontended(const Network& network, const Pattern& pattern, const CollectiveCost& cost) {
  return cost.latency + cost.volume * SecondsPerByte(network, pattern);
}

}  // namespace heddle
