// Where the stages of a configuration end.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "search/explore/estimate_internal.h"

namespace heddle {

// What the cut balances: seconds of a stage with these blocks; kForbidden where it does not fit.
double Estimator::StageSeconds(const Context& context, int stage, int first, int last) const {
  // Chunks share the memory of their device, so it is checked for all chunks together.
  StageEstimate at =
      StageOf(context, stage, first, last, context.shape.chunks > 1 ? kForbidden : context.room);
  if (!at.fits) return kForbidden;
  double own = at.times.forward + at.times.backward + at.times.weight;
  if (!context.counts_fill) return own;
  // The device waits for the forwards of the stages before its own, and for their backwards unless
  // W fills that time.
  double waits = Sums::Of(context.kept->forward, 0, first);
  if (!context.schedule->splits_backward) {
    waits += Sums::Of(context.kept->backward, 0, first) + Sums::Of(context.kept->weight, 0, first);
  }
  return context.shape.microbatches * own + waits;
}

// The last blocks of stages when each takes as many units as it may within the bound on its
// seconds. At least one unit is left for each of the stages after. False where the stages cannot
// take all units.
bool Estimator::FillStages(const Context& context, double bound, std::vector<int>& ends) const {
  int stages = context.configuration->stages(), count = units_.count();
  auto end_of = [&](int unit) { return units_.begins[static_cast<size_t>(unit)]; };
  ends.clear();
  int first = 0, from = 0;
  for (int s = 0; s < stages; ++s) {
    int most = count - (stages - 1 - s), least = from + 1;
    if (s + 1 == stages) least = most = count;
    if (least > most) return false;
    auto fits = [&](int unit) { return StageSeconds(context, s, first, end_of(unit)) <= bound; };
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
    first = end_of(low);
    ends.push_back(first);
  }
  return true;
}

// Seconds of the slowest stage.
double Estimator::SlowestSeconds(const Context& context, const std::vector<int>& ends) const {
  double slowest = 0;
  int stages = static_cast<int>(ends.size());
  for (int s = 0, first = 0; s < stages; first = ends[static_cast<size_t>(s++)]) {
    slowest = std::max(slowest, StageSeconds(context, s, first, ends[static_cast<size_t>(s)]));
  }
  return slowest;
}

// Cuts the model so that the slowest stage is as fast as possible, by bisection of its time.
// Filling greedily is optimal also where the pipeline's fill counts: a stage that begins later has
// less to do for every micro-batch and waits for more units only once. Where memory does not
// suffice, the units are divided evenly.
std::vector<int> Estimator::Cut(const Context& context) const {
  int blocks = static_cast<int>(prices_.model().blocks.size());
  int stages = context.configuration->stages();
  if (stages == 1) return {blocks};
  if (!problem_.fixed.layers_per_stage.empty()) {
    return StageEnds(prices_.model(), problem_.fixed.layers_per_stage, static_cast<size_t>(stages));
  }
  if (context.shape.chunks > 1) return CutInterleaved(context);
  const Sums* any = nullptr;
  for (const Sums* sums : context.sums) any = any == nullptr ? sums : any;
  double total = any->Seconds(0, blocks);
  double rounds = context.counts_fill ? context.shape.microbatches : 1;
  double low = rounds * total / stages * 0.5, high = (rounds + 1) * total * 4 + 1;
  std::vector<int> best, ends;
  if (!FillStages(context, high, best)) {
    best.clear();
    for (int64_t s = 1; s <= stages; ++s) {
      best.push_back(units_.begins[static_cast<size_t>(s * units_.count() / stages)]);
    }
    return best;
  }
  high = SlowestSeconds(context, best);
  for (int i = 0; i < 16 && high - low > 1e-4 * high; ++i) {
    double middle = (low + high) / 2;
    if (!FillStages(context, middle, ends)) {
      low = middle;
      continue;
    }
    best = ends;
    high = std::min(middle, SlowestSeconds(context, ends));
  }
  return best;
}

// The same for interleaved schedules, whose stages have n or n - 1 layers each.
std::vector<int> Estimator::CutInterleaved(const Context& context) const {
  const Sums& sums = *context.kept;
  std::lock_guard lock(sums.mutex);
  auto [at, fresh] = sums.even_ends.try_emplace({context.shape.devices, context.shape.chunks});
  std::vector<int>& ends = at->second;
  if (!fresh) return ends;
  std::vector<double> work;
  for (int u = 0; u < units_.count(); ++u) {
    work.push_back(sums.Seconds(units_.begins[static_cast<size_t>(u)],
                                units_.begins[static_cast<size_t>(u) + 1]));
  }
  ends = CutEvenly(units_, work, context.shape.devices, context.shape.chunks);
  for (int& end : ends) end = units_.begins[static_cast<size_t>(end)];
  return ends;
}

}  // namespace heddle
