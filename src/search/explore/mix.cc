#include "search/explore/mix.h"

#include <algorithm>
#include <cmath>

namespace heddle {

Mix CheapestMix(const PerRecomputePolicy<PolicyCost>& costs, double layers, double limit) {
  Mix best, least;
  double seconds = kForbidden;
  least.bytes = kForbidden;
  auto take = [&](double of, size_t lax, size_t strict) {
    const PolicyCost &a = costs[lax], &b = costs[strict];
    double mixed = a.seconds + of * (b.seconds - a.seconds);
    if (mixed >= seconds) return;
    seconds = mixed;
    best = {true, lax, strict, of, a.bytes + of * (b.bytes - a.bytes)};
  };
  for (size_t a = 0; a < costs.size(); ++a) {
    if (!costs[a].allowed) continue;
    if (costs[a].bytes < least.bytes) least = {false, a, a, 0, costs[a].bytes};
    if (costs[a].bytes <= limit) take(0, a, a);
    for (size_t b = 0; b < costs.size(); ++b) {
      if (!costs[b].allowed || layers == 0) continue;
      if (costs[a].bytes <= limit || costs[b].bytes > limit) continue;
      double of = (costs[a].bytes - limit) / (costs[a].bytes - costs[b].bytes);
      take(std::min(1.0, std::ceil(of * layers - 1e-9) / layers), a, b);
    }
  }
  return best.fits ? best : least;
}

}  // namespace heddle
