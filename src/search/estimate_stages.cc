// Where the stages of a configuration end, and what memory each of them may use.
#include <algorithm>
#include <cmath>

#include "search/estimate_internal.h"

namespace heddle {

double Estimator::Linear(const Context& context, int stage, int first, int last) const {
  // Chunks share their device: what does not fit is seen when all are there.
  StageEstimate at =
      StageOf(context, stage, first, last, context.shape.chunks > 1 ? kForbidden : context.room);
  if (!at.fits) return kForbidden;
  return at.times.forward + at.times.backward + at.times.weight;
}

// Where stages end: the slowest as fast as it can be. Stages take as many blocks as they may of a bound on their time,
// which is bisected; where memory does not suffice, stages of equal work.
std::vector<int> Estimator::Cut(const Context& context) const {
  int blocks = static_cast<int>(prices_.model().blocks.size());
  int stages = context.configuration->stages();
  if (stages == 1) return {blocks};
  if (!problem_.fixed.layers_per_stage.empty()) {
    return StageEnds(prices_.model(), problem_.fixed.layers_per_stage, static_cast<size_t>(stages));
  }
  std::vector<int> seams = seams_;
  seams.push_back(blocks);
  int count = static_cast<int>(seams.size());
  if (context.shape.chunks > 1) return CutEvenly(context, seams);
  // With so many seams left over for the stages after.
  auto fill = [&](double bound, std::vector<int>& ends) {
    ends.clear();
    int first = 0, from = 0;
    for (int s = 0; s < stages; ++s) {
      int most = count - (stages - 1 - s), least = from + 1;
      if (s + 1 == stages) least = most = count;
      if (least > most) return false;
      auto fits = [&](int k) {
        return Linear(context, s, first, seams[static_cast<size_t>(k - 1)]) <= bound;
      };
      if (!fits(least)) return false;
      int low = least, high = most;
      while (low < high) {
        int middle = (low + high + 1) / 2;
        if (fits(middle)) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      from = low;
      first = seams[static_cast<size_t>(low - 1)];
      ends.push_back(first);
    }
    return true;
  };
  const Sums* any = nullptr;
  for (const Sums* sums : context.sums) any = any == nullptr ? sums : any;
  double total = any->Seconds(0, blocks);
  double low = total / stages * 0.5, high = total * 4 + 1;
  std::vector<int> best, ends;
  if (!fill(high, best)) {
    best.clear();  // nothing fits: as evenly as it goes
    for (int s = 1; s <= stages; ++s) {
      best.push_back(seams[static_cast<size_t>(static_cast<int64_t>(s) * count / stages - 1)]);
    }
    return best;
  }
  high = 0;
  for (int s = 0, first = 0; s < stages; first = best[static_cast<size_t>(s++)]) {
    high = std::max(high, Linear(context, s, first, best[static_cast<size_t>(s)]));
  }
  for (int i = 0; i < 16 && high - low > 1e-4 * high; ++i) {
    double middle = (low + high) / 2;
    if (!fill(middle, ends)) {
      low = middle;
      continue;
    }
    best = ends;
    double slowest = 0;
    for (int s = 0, first = 0; s < stages; first = ends[static_cast<size_t>(s++)]) {
      slowest = std::max(slowest, Linear(context, s, first, ends[static_cast<size_t>(s)]));
    }
    high = std::min(middle, slowest);
  }
  return best;
}

// Stages of n or n - 1 units: a unit less where a device has most to do, one after the other; the last stage that can.
std::vector<int> Estimator::CutEvenly(const Context& context, const std::vector<int>& seams) const {
  int stages = context.configuration->stages(), units = static_cast<int>(seams.size());
  int devices = context.shape.devices;
  int most = (units + stages - 1) / stages;
  std::vector<int> counts(static_cast<size_t>(stages), most), ends;
  auto place = [&] {
    ends.clear();
    int taken = 0;
    for (int count : counts) {
      taken += count;
      ends.push_back(seams[static_cast<size_t>(std::clamp(taken, 1, units) - 1)]);
    }
  };
  for (int fewer = most * stages - units; fewer > 0; --fewer) {
    place();
    int worst = -1;
    double longest = -1;
    for (int s = stages - 1; s >= 0; --s) {
      if (counts[static_cast<size_t>(s)] < most || most == 1) continue;
      double work = 0;
      for (int t = s % devices; t < stages; t += devices) {
        int first = t == 0 ? 0 : ends[static_cast<size_t>(t) - 1];
        work += context.kept->Seconds(first, std::max(first, ends[static_cast<size_t>(t)]));
      }
      if (work > longest * (1 + 1e-9)) {
        longest = work;
        worst = s;
      }
    }
    if (worst < 0) break;
    --counts[static_cast<size_t>(worst)];
  }
  place();
  return ends;
}

// The stages of a device of the pipeline share its memory: one mix of policies serves all of its layers, and each of its
// stages has its share of those that are recomputed most.
void Estimator::SetDevice(const Context& context, const std::vector<int>& ends, int device,
                          Estimate& out) const {
  auto at = static_cast<size_t>(device), devices = static_cast<size_t>(context.shape.devices);
  double room = context.room - (context.missing.empty() ? 0 : context.missing[at]);
  std::array<PolicyCost, 3> all;
  std::vector<std::array<PolicyCost, 3>> costs;
  double layers = 0;
  auto first = [&](size_t s) { return s == 0 ? 0 : ends[s - 1]; };
  for (size_t s = at; s < ends.size(); s += devices) {
    costs.push_back(PolicyCosts(context, static_cast<int>(s), first(s), ends[s]));
    for (size_t p = 0; p < all.size(); ++p) {
      all[p].allowed = costs.back()[p].allowed;
      all[p].seconds += costs.back()[p].seconds;
      all[p].bytes += costs.back()[p].bytes;
    }
    layers += Sums::Of(context.kept->layers, first(s), ends[s]);
  }
  Mix mix = CheapestMix(all, layers, room);
  double strict = std::round(mix.share * layers), before = 0, given = 0;
  for (size_t s = at, i = 0; s < ends.size(); s += devices, ++i) {
    double own = Sums::Of(context.kept->layers, first(s), ends[s]);
    before += own;
    // Spread evenly: as many as the layers so far demand, rounded up.
    double count =
        layers > 0 ? std::min(own, std::ceil(strict * before / layers - 1e-9) - given) : 0;
    given += count;
    Mix part = mix;
    part.share = own > 0 ? count / own : 0;
    const PolicyCost &lax = costs[i][mix.lax], &most = costs[i][mix.strict];
    part.bytes = lax.bytes + part.share * (most.bytes - lax.bytes);
    out.stages[s] = StageUnder(context, first(s), ends[s], part);
    out.stages[s].room = room;
    out.device_bytes[at] += part.bytes;
  }
}

}  // namespace heddle
