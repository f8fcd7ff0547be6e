#include "cost/collective_cost.h"

#include <algorithm>

namespace heddle {

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
