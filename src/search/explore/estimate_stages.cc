// Where the stages of a configuration end, and what memory each of them may use.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "search/explore/estimate_internal.h"

namespace heddle {

// ZeRO 2: when the gradients of all micro-batches are scattered, one after the other, the first of them once the forwards
// before the first backward are done.
double Estimator::ReducedEachSeconds(const Context& context, const Estimate& estimate,
                                     int64_t bucket_bytes) const {
  const Configuration& c = *context.configuration;
  if (c.zero != 2 || !problem_.sim.stack.overlap_gradients) return 0;
  double per_parameter =
      context.reduce + context.reduce_latency * GroupsPerParameter(c, bucket_bytes);
  double last = 0;
  for (size_t d = 0; d < static_cast<size_t>(c.pp); ++d) {
    double forward = 0, parameters = 0;  // forward: of a chunk, on average
    for (size_t s = d; s < estimate.stages.size(); s += static_cast<size_t>(c.pp)) {
      forward += estimate.stages[s].times.forward / static_cast<double>(c.chunks);
      parameters += estimate.stages[s].parameters;
    }
    double forwards = context.schedule->peak_in_flight(context.shape, static_cast<int>(d));
    double reduced = static_cast<double>(c.microbatches) * parameters * per_parameter;
    last = std::max(last, forwards * forward + reduced);
  }
  return last;
}

// Collectives for each parameter that a device holds.
double Estimator::GroupsPerParameter(const Configuration& c, int64_t bucket_bytes) const {
  if (c.dp == 1 || c.zero == 3) return 0;
  double gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  return groups_.PerElement(static_cast<double>(bucket_bytes) / gradient,
                            static_cast<double>(c.inner()));
}

// After the last backward: what is left of the reductions, then updates, then ZeRO 1 and 2 gather the weights. Of the device
// for which that takes longest.
double Estimator::EndSeconds(const Context& context, const Estimate& estimate,
                             int64_t bucket_bytes) const {
  const Configuration& c = *context.configuration;
  double groups = GroupsPerParameter(c, bucket_bytes);
  double update = std::max(context.update, context.host_copies), end = 0;
  for (int d = 0; d < context.shape.devices; ++d) {
    std::vector<double> reduce;  // by chunk
    double parameters = 0;
    for (int s = d; s < context.shape.stages(); s += context.shape.devices) {
      const StageEstimate& stage = estimate.stages[static_cast<size_t>(s)];
      double each = c.zero >= 2 ? 0 : context.reduce + groups * context.reduce_latency;
      reduce.push_back(stage.reduced + stage.parameters * each);
      parameters += stage.parameters;
    }
    double exposed = problem_.sim.stack.overlap_gradients
                         ? ExposedReduction(context.shape, d, reduce)
                         : std::accumulate(reduce.begin(), reduce.end(), 0.0);
    double gather =
        c.zero == 3 ? 0 : parameters * (context.gather + groups * context.gather_latency);
    end = std::max(end, exposed + parameters * update + gather);
  }
  return end;
}

// ZeRO 3: the weights of a block at work and of those gathered ahead, its gradients and their flat copy. What is no
// layer stays whole.
double Estimator::GatheredBytes(const Configuration& c, const Sums& sums) const {
  if (c.zero != 3 || c.dp == 1) return 0;
  const Precision& precision = prices_.options().precision;
  auto weight = static_cast<double>(SizeOf(precision.compute));
  auto gradient = static_cast<double>(SizeOf(precision.gradients));
  return (1 + Plan{}.prefetch) * weight * sums.most_parameters +
         2 * kept() * gradient * sums.most_parameters + weight * sums.loose_parameters;
}

double Estimator::Linear(const Context& context, int stage, int first, int last) const {
  // Chunks share their device: what does not fit is seen when all are there.
  StageEstimate at =
      StageOf(context, stage, first, last, context.shape.chunks > 1 ? kForbidden : context.room);
  if (!at.fits) return kForbidden;
  double own = at.times.forward + at.times.backward + at.times.weight;
  if (!context.minds_waiting) return own;
  // The device waits for the stages before its own forward once and, unless W fills that time, backward once.
  double waits = Sums::Of(context.kept->forward, 0, first);
  if (!context.schedule->splits_backward) {
    waits += Sums::Of(context.kept->backward, 0, first) + Sums::Of(context.kept->weight, 0, first);
  }
  return context.shape.microbatches * own + waits;
}

// Where stages end: the slowest as fast as it can be. Stages take as many blocks as they may of a bound on their time,
// which is bisected; where memory does not suffice, stages of equal work. A stage that begins later has less to do for every
// micro-batch and waits once for more, so that taking as many as possible is best with waiting, too.
std::vector<int> Estimator::Cut(const Context& context) const {
  int blocks = static_cast<int>(prices_.model().blocks.size());
  int stages = context.configuration->stages();
  if (stages == 1) return {blocks};
  if (!problem_.fixed.layers_per_stage.empty()) {
    return StageEnds(prices_.model(), problem_.fixed.layers_per_stage, static_cast<size_t>(stages));
  }
  std::vector<int> seams(units_.begins.begin() + 1, units_.begins.end());
  int count = units_.count();
  if (context.shape.chunks > 1) return CutInterleaved(context);
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
  double rounds = context.minds_waiting ? context.shape.microbatches : 1;
  double low = rounds * total / stages * 0.5, high = (rounds + 1) * total * 4 + 1;
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

// The same for stages of an interleaved schedule, which have as many layers each, or one less.
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

namespace {

// Layers of a stage that change from one policy of recomputation to the next stricter one, of those worth using.
struct StricterStep {
  size_t stage = 0;
  double layers = 0;
  double saved = 0, added = 0;  // bytes and seconds of a layer
};

// The policies of a stage on the lower convex hull of bytes and seconds, as steps. `bytes` becomes that of the first.
void AddSteps(const PerRecomputePolicy<PolicyCost>& costs, size_t stage, double layers,
              double& bytes, std::vector<StricterStep>& steps) {
  size_t at = costs.size();
  for (size_t p = 0; p < costs.size(); ++p) {
    bool faster = at == costs.size() || costs[p].seconds < costs[at].seconds ||
                  (costs[p].seconds == costs[at].seconds && costs[p].bytes < costs[at].bytes);
    if (costs[p].allowed && faster) at = p;
  }
  bytes = costs[at].bytes;
  while (layers > 0) {
    size_t next = costs.size();
    StricterStep best{stage, layers, 0, 0};
    for (size_t p = 0; p < costs.size(); ++p) {
      double saved = (costs[at].bytes - costs[p].bytes) / layers;
      double added = std::max(0.0, costs[p].seconds - costs[at].seconds) / layers;
      if (!costs[p].allowed || saved <= 0) continue;
      if (next < costs.size() && saved * best.added <= best.saved * added) continue;
      next = p;
      best.saved = saved;
      best.added = added;
    }
    if (next == costs.size()) return;
    steps.push_back(best);
    at = next;
  }
}

// Bytes that each stage of a device may use, so that together they fit in `room`: layers are recomputed where that saves
// most bytes for the time it adds, which is where most micro-batches are in flight.
std::vector<double> ShareRoom(const std::vector<PerRecomputePolicy<PolicyCost>>& costs,
                              const std::vector<double>& layers, double room) {
  std::vector<double> rooms(costs.size());
  std::vector<StricterStep> steps;
  for (size_t i = 0; i < costs.size(); ++i) AddSteps(costs[i], i, layers[i], rooms[i], steps);
  double sum = std::accumulate(rooms.begin(), rooms.end(), 0.0);
  // Of steps about as good, the earlier chunk: where all devices recompute in the same chunks, none waits for another.
  auto saved_per_second = [](const StricterStep& step) {
    constexpr double kFine = 16, kMost = 1e300;
    double ratio = step.added > 0 ? std::min(step.saved / step.added, kMost) : kMost;
    return std::round(kFine * std::log2(ratio));
  };
  std::stable_sort(steps.begin(), steps.end(), [&](const StricterStep& a, const StricterStep& b) {
    return saved_per_second(a) > saved_per_second(b);
  });
  for (const StricterStep& step : steps) {
    if (sum <= room) break;
    double count = std::min(step.layers, std::ceil((sum - room) / step.saved - 1e-9));
    rooms[step.stage] -= count * step.saved;
    sum -= count * step.saved;
  }
  // A little more, because of rounding; too little where the device does not fit.
  double missing = std::max(0.0, sum - room);
  for (double& at : rooms) at += 1e-9 * std::abs(at) - missing;
  return rooms;
}

}  // namespace

// The stages of a device of the pipeline share its memory.
void Estimator::SetDevice(const Context& context, const std::vector<int>& ends, int device,
                          Estimate& out) const {
  auto at = static_cast<size_t>(device), devices = static_cast<size_t>(context.shape.devices);
  double room = context.room - (context.missing.empty() ? 0 : context.missing[at]);
  std::vector<PerRecomputePolicy<PolicyCost>> costs;
  std::vector<double> layers;
  auto first = [&](size_t s) { return s == 0 ? 0 : ends[s - 1]; };
  for (size_t s = at; s < ends.size(); s += devices) {
    costs.push_back(PolicyCosts(context, static_cast<int>(s), first(s), ends[s]));
    layers.push_back(Sums::Of(context.kept->layers, first(s), ends[s]));
  }
  std::vector<double> rooms = {room};
  if (costs.size() > 1) rooms = ShareRoom(costs, layers, room);
  for (size_t s = at, i = 0; s < ends.size(); s += devices, ++i) {
    Mix mix = CheapestMix(costs[i], layers[i], rooms[i]);
    out.stages[s] = StageUnder(context, first(s), ends[s], mix);
    out.stages[s].room = room;
    out.device_bytes[at] += mix.bytes;
  }
}

}  // namespace heddle
