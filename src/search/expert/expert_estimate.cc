#include "search/expert/expert_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "plan/expert_strategies.h"
#include "search/explore/estimate.h"
#include "search/explore/pipeline_step.h"
#include "search/prices/links.h"

namespace heddle {

// What all stages of some degrees share.
struct ExpertEstimator::Context {
  const Degrees* degrees = nullptr;
  const std::vector<int>* ends = nullptr;
  PerRecomputePolicy<const ExpertSums*> sums = {};  // by policy; null: not allowed
  const ExpertSums* kept = nullptr;                 // with nothing recomputed
  const ScheduleDef* schedule = nullptr;
  PipelineShape shape;
  HeldBytes dense, expert;  // per element
  double room = 0;          // bytes, less what is there for a moment

  int first(int stage) const { return stage == 0 ? 0 : (*ends)[static_cast<size_t>(stage) - 1]; }
  int last(int stage) const { return (*ends)[static_cast<size_t>(stage)]; }
};

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

// At the beginning of a layer in the middle.
void ExpertEstimator::CountCrossing() {
  const Model& model = problem_.model;
  std::vector<int> layers;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    if (model.blocks[b].chain >= 0) layers.push_back(static_cast<int>(b));
  }
  if (layers.empty()) return;
  int cut = layers[layers.size() / 2];
  for (size_t v = 0; v < model.graph.values.size(); ++v) {
    const Value& value = model.graph.values[v];
    if (!value.producer.valid()) continue;
    int made = model.block_of[value.producer.index()];
    bool crosses = made >= 0 && made < cut &&
                   std::any_of(model.readers[v].begin(), model.readers[v].end(),
                               [&](NodeId at) { return model.block_of[at.index()] >= cut; });
    if (crosses) crossing_bytes_ += static_cast<double>(ByteCount(value.type));
  }
  crossing_bytes_ *=
      static_cast<double>(SizeOf(problem_.precision)) / static_cast<double>(SizeOf(DType::kF32));
}

// From a device of a stage to one of the next. Without sequence parallelism tp ranks hold the same activations.
double ExpertEstimator::SentBytes(const Degrees& d) const {
  int64_t parts = d.dp * d.cp * (d.sp ? d.tp : 1);
  return crossing_bytes_ / static_cast<double>(d.microbatches * parts);
}

const PipelineLinks& ExpertEstimator::PipelineOf(const Degrees& d) {
  int64_t mesh = d.dp * d.cp * d.tp;
  std::lock_guard lock(mutex_);
  return pipelines_.try_emplace({mesh, d.pp}, prices_.network(), mesh, d.pp).first->second;
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
  // Of many micro-batches what is done once is next to nothing.
  constexpr int64_t kMany = 4;
  int64_t batch = std::max<int64_t>(1, BatchSize(problem_.model));
  ExpertKey key{d.tp, d.cp, d.ep, d.sp, std::max<int64_t>(1, batch / (d.dp * d.microbatches)), 1};
  key.microbatches = d.microbatches >= kMany ? std::numeric_limits<double>::infinity()
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

std::pair<ExpertEstimator::Traffic, ExpertEstimator::Traffic> ExpertEstimator::TrafficOf(
    const Degrees& d) {
  std::lock_guard lock(mutex_);
  auto [at, fresh] = traffic_.try_emplace({d.dp, d.cp, d.tp, d.ep});
  if (!fresh) return at->second;
  Mesh mesh = ExpertMesh(d);
  MeshLinks links(prices_.network(), mesh);
  AxisMask dense = 0, expert = 0;
  int experts = ExpertAxisOf(mesh, d);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!ReplicatesParameters(FindAxis(mesh.axes[a].name)->role)) continue;
    dense |= AxisSet(a);
    if (std::cmp_not_equal(a, experts)) expert |= AxisSet(a);
  }
  auto gradient = static_cast<double>(SizeOf(prices_.precision().gradients));
  auto weight = static_cast<double>(SizeOf(prices_.precision().compute));
  constexpr double kMany = 1 << 30;
  auto of = [&](AxisMask axes) {
    Traffic traffic;
    if (axes == 0) return traffic;
    auto seconds = [&](CollectiveKind kind, double bytes) {
      return links.BandwidthSeconds(kind, axes, bytes * kMany) / kMany;
    };
    traffic.reduce_latency = links.Seconds(CollectiveKind::kAllReduce, axes, 0);
    traffic.scatter_latency = links.Seconds(CollectiveKind::kReduceScatter, axes, 0);
    traffic.gather_latency = links.Seconds(CollectiveKind::kAllGather, axes, 0);
    traffic.reduce = seconds(CollectiveKind::kAllReduce, gradient);
    traffic.scatter = seconds(CollectiveKind::kReduceScatter, gradient);
    traffic.gather =
        seconds(CollectiveKind::kAllGather, weight / static_cast<double>(GroupSize(mesh, axes)));
    return traffic;
  };
  at->second = {of(dense), of(expert)};
  return at->second;
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

// Of all stages of a device under one policy each, but for what is there for a moment.
PerRecomputePolicy<PolicyCost> ExpertEstimator::DeviceCosts(const Context& context,
                                                            int device) const {
  // Between B and W what backward made is kept as well, and what was recomputed.
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

// The layers of a device that recompute more are spread evenly over its stages.
void ExpertEstimator::SetRecomputation(const Context& context, int device, const Mix& mix,
                                       std::vector<StageRecomputation>& stages) const {
  double layers = 0;
  std::vector<int> own;
  for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
    layers += ExpertSums::Of(context.kept->layers, context.first(s), context.last(s));
    own.push_back(s);
  }
  double strict = std::round(mix.share * layers), before = 0;
  for (int s : own) {
    StageRecomputation& at = stages[static_cast<size_t>(s)];
    at.lax = static_cast<RecomputePolicy>(mix.lax);
    at.strict = static_cast<RecomputePolicy>(mix.strict);
    double after = before + ExpertSums::Of(context.kept->layers, context.first(s), context.last(s));
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

// After the last backward: what of the reduction nothing hides, the update, and the gathering of what was updated.
// Collectives for each element on a device, of dense and of spread parameters.
std::pair<double, double> ExpertEstimator::GroupsPerElement(const Degrees& d,
                                                            int64_t bucket_bytes) const {
  double elements = static_cast<double>(bucket_bytes) /
                    static_cast<double>(SizeOf(prices_.precision().gradients));
  return {groups_.PerElement(elements, static_cast<double>(d.tp)),
          groups_.PerElement(elements, static_cast<double>(d.tp * d.ep))};
}

double ExpertEstimator::EndSeconds(const Context& context, const std::vector<HalfTimes>& times,
                                   int64_t bucket_bytes) {
  const Degrees& d = *context.degrees;
  auto [dense, expert] = TrafficOf(d);
  auto [dense_groups, expert_groups] = GroupsPerElement(d, bucket_bytes);
  Terms term = compute_.Update(1, prices_.precision());
  term[Term::kLaunch] = 0;
  double kept = 1 - problem_.pruning.sparsity, update = kept * term.total();
  PipelineShape shape = context.shape;
  shape.times = times;
  bool zero = d.zero > 0;
  double most = 0;
  for (int device = 0; device < shape.devices; ++device) {
    double of_dense = 0, of_expert = 0;
    std::vector<double> reduce;  // by chunk
    auto reduced = [&](const Traffic& traffic, double elements, double groups) {
      return zero ? elements * (kept * traffic.scatter + groups * traffic.scatter_latency)
                  : elements * (kept * traffic.reduce + groups * traffic.reduce_latency);
    };
    for (int s = device; s < shape.stages(); s += shape.devices) {
      double more_dense = ExpertSums::Of(context.kept->dense, context.first(s), context.last(s));
      double more_expert = ExpertSums::Of(context.kept->expert, context.first(s), context.last(s));
      of_dense += more_dense;
      of_expert += more_expert;
      double seconds =
          reduced(dense, more_dense, dense_groups) + reduced(expert, more_expert, expert_groups);
      reduce.push_back(d.zero >= 2 ? 0 : seconds);
    }
    double updated = (of_dense / static_cast<double>(zero ? d.dp * d.cp : 1) +
                      of_expert / static_cast<double>(zero ? d.dp / d.ep * d.cp : 1)) *
                     update;
    if (d.offload == Offload::kOptimizer) {
      double copied = of_dense * context.dense.on_host + of_expert * context.expert.on_host;
      updated = std::max(updated, copied / problem_.cluster.device_types.front().host.bandwidth);
    }
    double gather = 0;
    if (d.zero == 1 || d.zero == 2) {
      gather = of_dense * (kept * dense.gather + dense_groups * dense.gather_latency) +
               of_expert * (kept * expert.gather + expert_groups * expert.gather_latency);
    }
    double exposed = problem_.sim.stack.overlap_gradients
                         ? ExposedReduction(shape, device, reduce)
                         : std::accumulate(reduce.begin(), reduce.end(), 0.0);
    most = std::max(most, updated + gather + exposed);
  }
  return most;
}

bool ExpertEstimator::HasHostRoom(const Context& context) const {
  std::optional<int64_t> has = HostLimit(problem_);
  if (context.dense.on_host == 0 || !has) return true;
  double most = 0;
  for (int device = 0; device < context.shape.devices; ++device) {
    double bytes = 0;
    for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
      bytes += context.dense.on_host *
                   ExpertSums::Of(context.kept->dense, context.first(s), context.last(s)) +
               context.expert.on_host *
                   ExpertSums::Of(context.kept->expert, context.first(s), context.last(s));
    }
    most = std::max(most, bytes);
  }
  GroupSpan node = NodeOf(problem_.cluster, DeviceId{0});
  return static_cast<double>(node.count) * most <= static_cast<double>(*has);
}

// Recomputation is looked at only where memory does not suffice without.
ExpertEstimate ExpertEstimator::Of(const Degrees& d, const std::vector<int>& ends,
                                   const std::vector<double>& beyond, double limit) {
  if (problem_.fixed.recompute) return Under(d, ends, beyond, true, limit);
  ExpertEstimate plain = Under(d, ends, beyond, false, limit);
  return plain.fits || !plain.known ? plain : Under(d, ends, beyond, true, limit);
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
  // Of a block at work: what its backward makes, and what was recomputed.
  double transient = 0.02 * limit_ + context.kept->most_activations;
  bool gathers = d.zero == 3 && d.dp * d.cp > 1;
  if (gathers) {  // the block at work and those gathered ahead, its gradients and their flat copy
    auto weight = static_cast<double>(SizeOf(prices_.precision().compute));
    auto gradient = static_cast<double>(SizeOf(prices_.precision().gradients));
    transient += ((1 + Plan{}.prefetch) * weight + 2 * gradient) * context.kept->most_parameters +
                 weight * context.kept->loose_parameters;
  }
  out.stages.resize(ends.size());
  out.fits = HasHostRoom(context);
  for (int device = 0; device < context.shape.devices; ++device) {
    double layers = 0;
    for (int s = device; s < context.shape.stages(); s += context.shape.devices) {
      layers += ExpertSums::Of(context.kept->layers, context.first(s), context.last(s));
    }
    double more = beyond.empty() ? 0 : beyond[static_cast<size_t>(device)];
    // Estimates can be some hundredths too high, and where recomputation is fixed no plan is fitted afterwards.
    double room = problem_.fixed.recompute ? kMemoryOptimism * limit_ : limit_;
    Mix mix = CheapestMix(DeviceCosts(context, device), layers, room - transient - more);
    SetRecomputation(context, device, mix, out.stages);
    out.fits = out.fits && mix.fits;
    out.by_device.push_back(mix.bytes + transient + more);
    out.bytes = std::max(out.bytes, out.by_device.back());
  }
  for (int s = 0; s < context.shape.stages(); ++s) {
    context.shape.times.push_back(TimesOf(context, s, out.stages[static_cast<size_t>(s)]));
  }
  std::vector<HalfTimes> times = context.shape.times;
  auto [dense, expert] = TrafficOf(d);
  auto [dense_groups, expert_groups] = GroupsPerElement(d, problem_.bucket_bytes);
  for (int s = 0; s < context.shape.stages() && d.zero >= 2; ++s) {
    // Gradients are scattered, and with ZeRO 3 weights gathered twice, for every micro-batch, beside computation.
    HalfTimes& at = context.shape.times[static_cast<size_t>(s)];
    double of_dense = ExpertSums::Of(context.kept->dense, context.first(s), context.last(s));
    double of_expert = ExpertSums::Of(context.kept->expert, context.first(s), context.last(s));
    double gather = d.zero == 3 ? of_dense * dense.gather + of_expert * expert.gather : 0;
    double reduce = of_dense * dense.scatter + of_expert * expert.scatter;
    if (d.zero == 3) {  // what is split along other axes is a group by itself
      double layers = ExpertSums::Of(context.kept->layers, context.first(s), context.last(s));
      double groups = layers * (d.tp > 1 ? 2 : 1);
      gather += groups * dense.gather_latency;
      reduce += groups * dense.scatter_latency;
    } else {
      reduce += of_dense * dense_groups * dense.scatter_latency +
                of_expert * expert_groups * expert.scatter_latency;
    }
    double backward = at.backward + at.weight;
    bool waits = !problem_.sim.stack.overlap_weights;
    at.forward += waits ? 0.6 * gather : std::max(0.0, gather - at.forward);
    at.backward += waits ? 0.6 * (gather + reduce) : std::max(0.0, gather + reduce - backward);
  }
  PipelineTime pipeline = d.pp == 1 ? PipelineTime{context.schedule->lower_bound(context.shape)}
                                    : PipelineSeconds(*context.schedule, context.shape,
                                                      PipelineOf(d), SentBytes(d), limit);
  out.by_links = pipeline.by_links;
  out.bucket_bytes = problem_.bucket_bytes;
  double end = EndSeconds(context, times, out.bucket_bytes);
  // Where latencies count, larger buckets.
  constexpr double kWorth = 0.01;  // of the step
  constexpr int64_t kMost = int64_t{1} << 30;
  bool free = d.dp * d.cp > 1 && d.zero < 3 && d.offload == Offload::kNone;
  for (int64_t larger = 4 * problem_.bucket_bytes; free && larger <= kMost; larger *= 4) {
    double with = EndSeconds(context, times, larger);
    if (with >= end - kWorth * (pipeline.seconds + end)) continue;
    end = with;
    out.bucket_bytes = larger;
  }
  out.seconds = pipeline.seconds + end;
  return out;
}

namespace {

// As the estimate says: of a stage's layers the first ones recompute more.
void SetPolicies(const Model& model, const ExpertEstimate& estimate, Plan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageRecomputation& at = estimate.stages[s];
    Stage& stage = plan.stages[s];
    int64_t left = at.strict_layers;
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      bool strict = model.blocks[static_cast<size_t>(b)].chain >= 0 && left > 0;
      if (strict) --left;
      stage.recompute[static_cast<size_t>(b - stage.first_block)] = strict ? at.strict : at.lax;
    }
  }
}

std::optional<Proposal> Fitted(std::shared_ptr<ExpertEstimator> estimator, const Degrees& d,
                               Plan plan, std::string from, const std::vector<double>& beyond) {
  std::vector<int> ends;
  for (const Stage& stage : plan.stages) ends.push_back(stage.last_block);
  ExpertEstimate estimate = estimator->Of(d, ends, beyond);
  if (!estimate.known) return std::nullopt;
  SetPolicies(estimator->problem().model, estimate, plan);
  plan.bucket_bytes = estimate.bucket_bytes;
  Proposal proposal{plan, from, estimate.seconds, estimate.bytes, 0};
  proposal.spread = estimate.by_links ? kSpreadByLinks : 0;
  if (estimator->problem().fixed.recompute) return proposal;
  proposal.refit = [=, plan = std::move(plan)](const std::vector<double>& reserved) {
    std::vector<double> more = beyond;
    more.resize(estimate.by_device.size());
    for (size_t i = 0; i < std::min(more.size(), reserved.size()); ++i) {
      more[i] += reserved[i] - estimate.by_device[i];
    }
    std::optional<Proposal> next = Fitted(estimator, d, plan, from, more);
    bool same = next && std::equal(plan.stages.begin(), plan.stages.end(),
                                   next->plan.stages.begin(), [](const Stage& a, const Stage& b) {
                                     return a.recompute == b.recompute;
                                   });
    return same ? std::nullopt : next;
  };
  return proposal;
}

}  // namespace

std::optional<Proposal> ProposeExpert(std::shared_ptr<ExpertEstimator> estimator, const Degrees& d,
                                      std::string from) {
  const SearchProblem& problem = estimator->problem();
  Plan plan;
  try {
    plan = ExpertPlan(problem.model, problem.cluster, d);
  } catch (const InputError&) {
    return std::nullopt;
  }
  plan.bucket_bytes = problem.bucket_bytes;
  if (SplitsWhole(problem, plan)) return std::nullopt;
  return Fitted(std::move(estimator), d, std::move(plan), std::move(from), {});
}

// Of the parameters that are not to be split.
bool SplitsWhole(const SearchProblem& problem, const Plan& plan) {
  const Model& model = problem.model;
  auto whole = [&](ValueId id) {
    const Value& value = model.graph.value(id);
    return value.kind == ValueKind::kParameter &&
           std::find(problem.whole.begin(), problem.whole.end(), value.name) != problem.whole.end();
  };
  if (problem.whole.empty()) return false;
  for (const Stage& stage : plan.stages) {
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (stage.strategies[n].empty()) continue;
      const std::vector<ValueId>& operands = model.graph.nodes[n].operands;
      for (size_t o = 0; o < operands.size(); ++o) {
        if (!whole(operands[o])) continue;
        Sharding stored = OperandSharding(stage.mesh, model.rules[n], stage.strategies[n], o);
        if (stored.split_axes() != 0) return true;
      }
    }
  }
  return false;
}

}  // namespace heddle
