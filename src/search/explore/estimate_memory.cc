// Memory in estimates: which recomputation policy each layer gets so that the stages of a device fit.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster/topology.h"
#include "search/explore/estimate_internal.h"

namespace heddle {

HeldBytes Estimator::BytesOf(const Configuration& c, double kept) const {
  return HeldBytesOf(prices_.options().precision, kept, c.zero, static_cast<double>(c.dp),
                     c.microbatches == 1, c.offload);
}

// ZeRO 3: the weights of the block at work and of the prefetched ones, its gradients and their flat
// copy. Parameters outside the layers stay whole.
double Estimator::GatheredBytes(const Configuration& c, const Sums& sums) const {
  if (c.zero != 3 || c.dp == 1) return 0;
  const Precision& precision = prices_.options().precision;
  auto weight = static_cast<double>(SizeOf(precision.compute));
  auto gradient = static_cast<double>(SizeOf(precision.gradients));
  return (1 + Plan{}.prefetch) * weight * sums.most_parameters +
         2 * kept() * gradient * sums.most_parameters + weight * sums.outside_layers;
}

// The cost of a stage under each policy; bytes exclude short-lived buffers.
PerRecomputePolicy<PolicyCost> Estimator::PolicyCosts(const Context& context, int stage, int first,
                                                      int last) const {
  int device = context.shape.device_of(stage);
  double in_flight = context.schedule->peak_in_flight(context.shape, device);
  double pending = context.schedule->peak_weight_pending(context.shape, device);
  // Between B and W a micro-batch keeps its activations, including recomputed ones, and what B
  // made. kPending is the ratio of these bytes to the activations.
  constexpr double kPending = 2.3;
  double waiting = context.schedule->splits_backward ? std::max(1.0, pending - in_flight) : 0;
  if (context.shape.chunks > 1) {
    in_flight = PeakInFlightOfStage(*context.schedule, context.shape, stage);
  }
  PerRecomputePolicy<PolicyCost> costs;
  for (size_t r = 0; r < costs.size(); ++r) {
    const Sums* sums = context.sums[r];
    if (sums == nullptr) continue;
    costs[r].allowed = true;
    costs[r].seconds = sums->Seconds(first, last);
    double parameters = Sums::Of(sums->parameters, first, last);
    double peak = in_flight * Sums::Of(sums->activations, first, last) +
                  context.step.bytes.at_peak(true) * parameters +
                  kPending * waiting * Sums::Of(context.kept->activations, first, last);
    costs[r].bytes = std::max(peak, context.step.bytes.at_end() * parameters) +
                     Sums::Of(sums->held, first, last);
  }
  return costs;
}

StageEstimate Estimator::StageOf(const Context& context, int stage, int first, int last,
                                 double limit) const {
  double layers = Sums::Of(context.kept->layers, first, last);
  Mix mix = CheapestMix(PolicyCosts(context, stage, first, last), layers, limit);
  StageEstimate out = StageUnder(context, first, last, mix);
  out.room = limit;
  return out;
}

StageEstimate Estimator::StageUnder(const Context& context, int first, int last,
                                    const Mix& mix) const {
  const Configuration& c = *context.configuration;
  StageEstimate out;
  out.first_block = first;
  out.last_block = last;
  out.fits = mix.fits;
  out.bytes = mix.bytes;
  out.lax = kRecomputePolicies[mix.lax].policy;
  out.strict = kRecomputePolicies[mix.strict].policy;
  out.strict_layers = std::llround(mix.share * Sums::Of(context.kept->layers, first, last));
  auto mixed = [&](auto member) {
    double x = Sums::Of(context.sums[mix.lax]->*member, first, last);
    double y = Sums::Of(context.sums[mix.strict]->*member, first, last);
    return x + mix.share * (y - x);
  };
  double host = compute_.Host().total();
  out.parameters = mixed(&Sums::parameters);
  out.reduced = mixed(&Sums::reduced);
  out.work = mixed(&Sums::forward) + mixed(&Sums::backward) + mixed(&Sums::weight);
  out.times = {mixed(&Sums::forward) + host, mixed(&Sums::backward) + host, mixed(&Sums::weight)};
  // For every micro-batch weights are gathered twice and gradients are scattered.
  if (c.zero == 3) {
    // These collectives run beside computation, but traffic that computation waits for queues
    // behind them.
    double groups = Sums::Of(context.kept->gathered_groups, first, last);
    double gather =
        out.parameters * context.step.gather + groups * context.step.layer_gather_latency;
    double reduce =
        out.parameters * context.step.reduce + groups * context.step.layer_scatter_latency;
    double backward = out.times.backward + out.times.weight;
    bool waits = !problem_.sim.stack.overlap_weights;
    out.times.forward += waits ? 0.6 * gather : std::max(0.0, gather - out.times.forward);
    out.times.backward +=
        waits ? 0.6 * (gather + reduce) : std::max(0.0, gather + reduce - backward);
  }
  if (c.zero == 2 && !problem_.sim.stack.overlap_gradients) {
    out.times.backward += out.parameters * context.step.reduce;  // of every micro-batch
  }
  return out;
}

void Estimator::SetPolicies(StageEstimate& stage) const {
  int64_t strict_layers = stage.strict_layers;
  for (int b = stage.first_block; b < stage.last_block; ++b) {
    bool layer = prices_.model().blocks[static_cast<size_t>(b)].chain >= 0;
    bool more = layer && strict_layers > 0;
    if (more) --strict_layers;
    stage.recompute.push_back(more ? stage.strict : stage.lax);
  }
}

// Checks a machine all of whose devices hold the most.
bool Estimator::HasHostRoom(const Context& context,
                            const std::vector<StageEstimate>& stages) const {
  if (context.step.bytes.on_host == 0) return true;
  GroupSpan node = NodeOf(problem_.cluster, DeviceId{0});
  std::optional<int64_t> has = HostLimit(problem_);
  if (!has) return true;
  std::vector<double> parameters(static_cast<size_t>(context.shape.devices), 0);  // by device
  for (size_t s = 0; s < stages.size(); ++s) {
    parameters[s % parameters.size()] += stages[s].parameters;
  }
  double most = *std::max_element(parameters.begin(), parameters.end());
  return static_cast<double>(node.count) * most * context.step.bytes.on_host <=
         static_cast<double>(*has);
}

namespace {

// Making the layers of a stage one policy stricter, among the policies on the convex hull.
struct StricterStep {
  size_t stage = 0;
  double layers = 0;
  double saved = 0, added = 0;  // bytes and seconds of a layer
};

// Adds the policies of a stage on the lower convex hull of bytes and seconds as steps from one to
// the next. Sets `bytes` to those of the fastest policy.
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

// The bytes that each stage of a device may use so that all of them fit in `room`. Layers are
// recomputed first where that saves most bytes per added second, which is where most micro-batches
// are in flight.
std::vector<double> ShareRoom(const std::vector<PerRecomputePolicy<PolicyCost>>& costs,
                              const std::vector<double>& layers, double room) {
  std::vector<double> rooms(costs.size());
  std::vector<StricterStep> steps;
  for (size_t i = 0; i < costs.size(); ++i) AddSteps(costs[i], i, layers[i], rooms[i], steps);
  double sum = std::accumulate(rooms.begin(), rooms.end(), 0.0);
  // Among steps of about equal ratio the earlier chunk goes first. If all devices recompute in the
  // same chunks, none waits for another.
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
  // Some slack for rounding. Where the device does not fit, all its stages miss the bytes.
  double missing = std::max(0.0, sum - room);
  for (double& at : rooms) at += 1e-9 * std::abs(at) - missing;
  return rooms;
}

}  // namespace

// Distributes the memory of a device of the pipeline among its stages.
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
