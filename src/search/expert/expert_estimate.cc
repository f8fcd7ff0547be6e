#include "search/expert/expert_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "cluster/topology.h"
#include "search/expert/expert_estimate_internal.h"
#include "search/explore/estimate.h"
#include "search/explore/pipeline_step.h"
#include "search/prices/links.h"

namespace heddle {

ExpertEstimator::ExpertEstimator(const SearchProblem& problem)
    : problem_(problem),
      prices_(problem),
      compute_(problem_.cluster.device_types.front(),
               ConstantsFor(problem_.cluster.device_types.front(), problem_.sim,
                            DeviceCount(problem_.cluster)),
               problem_.sim.stack, prices_.precision()),
      limit_(static_cast<double>(MemoryLimit(problem_))),
      groups_(problem_.model) {
  const Model& model = problem_.model;
  for (const ModelBlock& block : model.blocks) {
    double sum = 0;
    for (NodeId id : block.nodes) {
      const Rule& rule = model.rules[id.index()];
      Halves halves = NodeWork(model.graph.node(id), rule, model.flow, WholeBlocks(rule));
      sum += halves.forward.flops + halves.backward.flops + halves.weight.flops;
    }
    flops_.push_back(sum);
  }
  CountCrossing();
}

std::vector<int> ExpertEstimator::EndsOf(const Degrees& d) {
  auto ends = [&]() -> std::vector<int> {
    try {
      return ExpertEnds(problem_.model, d, flops_);
    } catch (const InputError&) {
      return {};
    }
  };
  if (!d.layers_per_stage.empty()) return ends();
  std::lock_guard lock(mutex_);
  auto [at, fresh] = ends_.try_emplace({d.pp, d.chunks});
  if (fresh) at->second = ends();
  return at->second;
}

ExpertKey ExpertEstimator::KeyOf(const Degrees& d) const {
  // With many micro-batches, work that is done once per step is negligible.
  constexpr int64_t kManyMicrobatches = 4;
  int64_t batch = std::max<int64_t>(1, BatchSize(problem_.model));
  ExpertKey key{d.tp, d.cp, d.ep, d.sp, std::max<int64_t>(1, batch / (d.dp * d.microbatches)), 1};
  key.microbatches = d.microbatches >= kManyMicrobatches ? std::numeric_limits<double>::infinity()
                                                         : static_cast<double>(d.microbatches);
  return key;
}

double ExpertEstimator::LeastSeconds(const Degrees& d) {
  RecomputePolicy policy = problem_.fixed.recompute.value_or(RecomputePolicy::kNone);
  const ExpertSums* sums = prices_.Of(KeyOf(d), policy);
  if (sums == nullptr) return kForbidden;
  double whole = sums->Seconds(0, static_cast<int>(sums->layers.size()) - 1);
  double rounds =
      static_cast<double>(d.microbatches * d.chunks + d.pp - 1) / static_cast<double>(d.chunks);
  const ScheduleDef* schedule = FindSchedule(d.schedule);
  if (schedule->splits_backward) rounds = static_cast<double>(d.microbatches);
  return whole / static_cast<double>(d.pp) * rounds;
}

double ExpertEstimator::DeviceSeconds(const Degrees& d) {
  ExpertKey key = KeyOf(d);
  const ExpertSums* sums = prices_.Of(key, RecomputePolicy::kNone);
  if (sums == nullptr) return kForbidden;
  double whole = sums->Seconds(0, static_cast<int>(sums->layers.size()) - 1);
  return whole * static_cast<double>(d.tp * d.cp) / static_cast<double>(key.samples);
}

bool ExpertEstimator::SetContext(Context& context, bool recompute) {
  const Degrees& d = *context.degrees;
  ExpertKey key = KeyOf(d);
  for (size_t r = 0; r < context.sums.size(); ++r) {
    auto policy = static_cast<RecomputePolicy>(r);
    if (problem_.fixed.recompute && policy != *problem_.fixed.recompute) continue;
    if (!recompute && policy != RecomputePolicy::kNone) continue;
    context.sums[r] = prices_.Of(key, policy);
    if (context.sums[r] == nullptr) return false;
  }
  context.kept = prices_.Of(key, RecomputePolicy::kNone);
  if (context.kept == nullptr) return false;
  context.schedule = FindSchedule(d.schedule);
  context.shape.devices = static_cast<int>(d.pp);
  context.shape.chunks = d.chunks;
  context.shape.microbatches = static_cast<int>(d.microbatches);
  if (d.pp > 1) context.shape.transfers = PipelineOf(d).Transfers(SentBytes(d));
  double kept = 1 - problem_.pruning.sparsity;
  bool once = d.microbatches == 1;
  auto held = [&](int64_t ranks) {
    return HeldBytesOf(prices_.precision(), kept, ranks > 1 ? d.zero : 0,
                       static_cast<double>(ranks), once, d.offload);
  };
  context.dense = held(d.dp * d.cp);
  context.expert = held(d.dp / d.ep * d.cp);
  return true;
}

// The cost of all stages of a device under each policy; bytes exclude temporary buffers.
PerRecomputePolicy<PolicyCost> ExpertEstimator::DeviceCosts(const Context& context,
                                                            int device) const {
  // Between B and W a micro-batch keeps its activations, including recomputed ones, and what B
  // made. kPending is the ratio of these bytes to the activations.
  constexpr double kPending = 2.3;
  double in_flight = context.schedule->peak_in_flight(context.shape, device);
  double pending = context.schedule->peak_weight_pending(context.shape, device);
  double waiting = context.schedule->splits_backward ? std::max(1.0, pending - in_flight) : 0;
  in_flight /= context.shape.chunks;
  PerRecomputePolicy<PolicyCost> costs;
  for (size_t r = 0; r < costs.size(); ++r) {
    const ExpertSums* sums = context.sums[r];
    if (sums == nullptr) continue;
    double peak = 0, end = 0, held = 0;
    for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
      int first = context.first(s), last = context.last(s);
      double dense = ExpertSums::Of(sums->dense, first, last);
      double expert = ExpertSums::Of(sums->expert, first, last);
      peak += in_flight * ExpertSums::Of(sums->activations, first, last) +
              kPending * waiting * ExpertSums::Of(context.kept->activations, first, last) +
              context.dense.at_peak(true) * dense + context.expert.at_peak(true) * expert;
      end += context.dense.at_end() * dense + context.expert.at_end() * expert;
      held += ExpertSums::Of(sums->held, first, last);
      costs[r].seconds += sums->Seconds(first, last);
    }
    costs[r].allowed = true;
    costs[r].bytes = std::max(peak, end) + held;
  }
  return costs;
}

// Spreads a device's layers with the stricter policy evenly over its stages.
void ExpertEstimator::SetRecomputation(const Context& context, int device, const Mix& mix,
                                       std::vector<StageRecomputation>& stages) const {
  double layers = 0;
  std::vector<int> own;
  for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
    layers += context.Of(&ExpertSums::layers, s);
    own.push_back(s);
  }
  double strict = std::round(mix.share * layers), before = 0;
  for (int s : own) {
    StageRecomputation& at = stages[static_cast<size_t>(s)];
    at.lax = static_cast<RecomputePolicy>(mix.lax);
    at.strict = static_cast<RecomputePolicy>(mix.strict);
    double after = before + context.Of(&ExpertSums::layers, s);
    auto until = [&](double layer) {
      return layers > 0 ? std::llround(strict * layer / layers) : 0;
    };
    at.strict_layers = until(after) - until(before);
    before = after;
  }
}

HalfTimes ExpertEstimator::TimesOf(const Context& context, int stage,
                                   const StageRecomputation& at) const {
  int first = context.first(stage), last = context.last(stage);
  double layers = ExpertSums::Of(context.kept->layers, first, last);
  double share = layers > 0 ? static_cast<double>(at.strict_layers) / layers : 0;
  const ExpertSums &lax = *context.sums[static_cast<size_t>(at.lax)],
                   &strict = *context.sums[static_cast<size_t>(at.strict)];
  auto mixed = [&](auto member) {
    double x = ExpertSums::Of(lax.*member, first, last);
    return x + share * (ExpertSums::Of(strict.*member, first, last) - x);
  };
  double host = compute_.Host().total();
  return {mixed(&ExpertSums::forward) + host, mixed(&ExpertSums::backward) + host,
          mixed(&ExpertSums::weight)};
}

bool ExpertEstimator::HasHostRoom(const Context& context) const {
  std::optional<int64_t> has = HostLimit(problem_);
  if (context.dense.on_host == 0 || !has) return true;
  double most = 0;
  for (int device = 0; device < context.shape.devices; ++device) {
    double bytes = 0;
    for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
      bytes += context.dense.on_host * context.Of(&ExpertSums::dense, s) +
               context.expert.on_host * context.Of(&ExpertSums::expert, s);
    }
    most = std::max(most, bytes);
  }
  GroupSpan node = NodeOf(problem_.cluster, DeviceId{0});
  return static_cast<double>(node.count) * most <= static_cast<double>(*has);
}

// Recomputation is considered only where memory does not suffice without it.
ExpertEstimate ExpertEstimator::Of(const Degrees& d, const std::vector<int>& ends,
                                   const std::vector<double>& beyond, double limit) {
  if (problem_.fixed.recompute) return Under(d, ends, beyond, true, limit);
  ExpertEstimate plain = Under(d, ends, beyond, false, limit);
  return plain.fits || !plain.known ? plain : Under(d, ends, beyond, true, limit);
}

// Bytes of temporary buffers: what the backward of the block at work makes and what is recomputed;
// under ZeRO 3 also the gathered weights of this block and of the prefetched ones, its gradients
// and their flat copy.
double ExpertEstimator::TransientBytes(const Context& context) const {
  const Degrees& d = *context.degrees;
  double transient = 0.02 * limit_ + context.kept->most_activations;
  if (d.zero == 3 && d.dp * d.cp > 1) {
    auto weight = static_cast<double>(SizeOf(prices_.precision().compute));
    auto gradient = static_cast<double>(SizeOf(prices_.precision().gradients));
    transient += ((1 + Plan{}.prefetch) * weight + 2 * gradient) * context.kept->most_parameters +
                 weight * context.kept->outside_layers;
  }
  return transient;
}

// Gives every device of the pipeline the cheapest recomputation that fits it.
void ExpertEstimator::FitMemory(const Context& context, const std::vector<double>& beyond,
                                ExpertEstimate& out) const {
  double transient = TransientBytes(context);
  out.stages.resize(context.ends->size());
  out.fits = HasHostRoom(context);
  for (int device = 0; device < context.shape.devices; ++device) {
    double layers = 0;
    for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
      layers += context.Of(&ExpertSums::layers, s);
    }
    double more = beyond.empty() ? 0 : beyond[static_cast<size_t>(device)];
    // Estimates can be a few percent too high, and with a fixed policy no plan is refitted later.
    double room = problem_.fixed.recompute ? kMemoryOptimism * limit_ : limit_;
    Mix mix = CheapestMix(DeviceCosts(context, device), layers, room - transient - more);
    SetRecomputation(context, device, mix, out.stages);
    out.fits = out.fits && mix.fits;
    out.by_device.push_back(mix.bytes + transient + more);
    out.bytes = std::max(out.bytes, out.by_device.back());
  }
}

ExpertEstimate ExpertEstimator::Under(const Degrees& d, const std::vector<int>& ends,
                                      const std::vector<double>& beyond, bool recompute,
                                      double limit) {
  ExpertEstimate out;
  Context context;
  context.degrees = &d;
  context.ends = &ends;
  if (static_cast<int64_t>(ends.size()) != d.pp * d.chunks || !SetContext(context, recompute)) {
    return out;
  }
  out.known = true;
  FitMemory(context, beyond, out);
  for (int s = 0; s < context.shape.stages(); ++s) {
    context.shape.times.push_back(TimesOf(context, s, out.stages[static_cast<size_t>(s)]));
  }
  std::vector<HalfTimes> times = context.shape.times;
  AddMicrobatchTraffic(context);
  PipelineTime pipeline = d.pp == 1 ? PipelineTime{context.schedule->lower_bound(context.shape)}
                                    : PipelineSeconds(*context.schedule, context.shape,
                                                      PipelineOf(d), SentBytes(d), limit);
  out.by_links = pipeline.by_links;
  out.bucket_bytes = problem_.bucket_bytes;
  double end = EndSeconds(context, times, out.bucket_bytes);
  // Larger gradient buckets where latencies matter.
  constexpr double kWorthwhile = 0.01;  // share of the step
  constexpr int64_t kMost = int64_t{1} << 30;
  bool free = d.dp * d.cp > 1 && d.zero < 3 && d.offload == Offload::kNone;
  for (int64_t larger = 4 * problem_.bucket_bytes; free && larger <= kMost; larger *= 4) {
    double with = EndSeconds(context, times, larger);
    if (with >= end - kWorthwhile * (pipeline.seconds + end)) continue;
    end = with;
    out.bucket_bytes = larger;
  }
  out.seconds = pipeline.seconds + end;
  return out;
}

}  // namespace heddle
