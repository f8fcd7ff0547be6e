#include "search/explore/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cluster/topology.h"
#include "plan/axes.h"
#include "search/explore/estimate_internal.h"
#include "search/explore/pipeline_step.h"
#include "search/prices/links.h"

namespace heddle {
namespace {

// Of a layer that holds so many of its parameters on a device: those that are split along other axes are a group by themselves.
double GatheredGroups(double held, double all, int64_t devices) {
  if (all == 0) return 0;
  constexpr double kAlmost = 1e-6;
  bool whole = held >= all * (1 - kAlmost);
  bool split = held * static_cast<double>(devices) <= all * (1 + kAlmost);
  return whole || split ? 1 : 2;
}

}  // namespace

Estimator::Estimator(const SearchProblem& problem, Prices& prices)
    : problem_(problem),
      prices_(prices),
      compute_(problem.cluster.device_types.front(),
               ConstantsFor(problem.cluster.device_types.front(), problem.sim,
                            DeviceCount(problem.cluster)),
               problem.sim.stack, prices.options().precision),
      units_(UnitsOf(prices.model())),
      limit_(static_cast<double>(MemoryLimit(problem))),
      least_kept_(LeastKept(problem.pruning, problem.model.graph)),
      groups_(prices.model()) {
  CountParameters();
  CountCrossing();
}

// From a device to the one so many after it, when all of a stage send to all of the next.
Estimator::Hop Estimator::HopBetween(int64_t from, int64_t mesh) const {
  Network::Route route = prices_.network().RouteBetween(
      DeviceId{static_cast<int32_t>(from)}, DeviceId{static_cast<int32_t>(from + mesh)});
  Hop hop{route.latency, 0};
  for (LinkId link : route.links) {
    LinkKind kind = prices_.network().Kind(link);
    bool shared = kind.role == LinkRole::kUplink;
    double sharing = shared ? static_cast<double>(std::min(mesh, kind.group.count)) : 1;
    hop.per_byte = std::max(hop.per_byte, sharing / prices_.network().capacity(link));
  }
  return hop;
}

// From a device of a stage to one of the next, of a micro-batch.
double Estimator::SentBytes(const Configuration& c) const {
  return crossing_bytes_ / static_cast<double>(c.microbatches * c.dp * c.inner());
}

const PipelineLinks& Estimator::PipelineOf(const Configuration& c) {
  int64_t mesh = c.dp * c.inner();
  std::lock_guard lock(mutex_);
  return pipelines_.try_emplace({mesh, c.pp}, prices_.network(), mesh, c.pp).first->second;
}

// The gradients of parameters that the first and the last stage both read are added up between them.
double Estimator::TiedSeconds(const Configuration& c) const {
  if (c.pp == 1 || tied_parameters_ == 0) return 0;
  int64_t mesh = c.dp * c.inner();
  double gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  int64_t parts = c.inner() * (c.zero > 0 ? c.dp : 1);  // with ZeRO each rank adds up its shard
  double bytes = tied_parameters_ * gradient / static_cast<double>(parts);
  return TimeOfMessages(prices_.network(), (c.pp - 1) * mesh, mesh, bytes).seconds();
}

bool Estimator::Relieves(const Configuration& c) const {
  constexpr double kWorth = 0.05;
  double held = parameters_ / static_cast<double>(c.inner() * c.pp * (c.zero > 0 ? c.dp : 1));
  HeldBytes each =
      HeldBytesOf(prices_.options().precision, kept(), c.zero, 1, false, Offload::kNone);
  return held * each.state >= kWorth * limit_;
}

Estimator::~Estimator() = default;

PriceKey Estimator::KeyOf(const Configuration& c, RecomputePolicy recompute) const {
  PriceKey key;
  key.axes = c.axes;
  int64_t batch = std::max<int64_t>(1, BatchSize(problem_.model));
  key.samples = batch / (c.dp * c.microbatches);
  key.microbatches = static_cast<double>(c.microbatches);
  key.recompute = recompute;
  return key;
}

// What a byte is worth at a memory level: the memory of a device a hundredth of a stage's work, a quarter, four times
// it. Powers of two, so that configurations share what was found.
const Priced* Estimator::PricedAs(const Configuration& c, RecomputePolicy recompute,
                                  int memory_level) {
  constexpr std::array<double, kMemoryLevels> kLevels = {1.0 / 128, 0.25, 4};
  PriceKey key = KeyOf(c, recompute);
  const LeastTime* least = prices_.LeastTimeOf(KeyOf(c, Policies().front()));
  auto power = [](double x) { return std::exp2(std::floor(std::log2(x))); };
  double stages = static_cast<double>(c.pp);
  double price = kLevels[static_cast<size_t>(memory_level)] * least->whole / stages / limit_;
  double in_flight =
      std::max(1.0, std::min<double>(stages, static_cast<double>(c.microbatches)) / 2);
  key.per_byte = power(price * in_flight);
  HeldBytes held = HeldBytesOf(prices_.options().precision, kept(), c.zero,
                               static_cast<double>(c.dp), c.microbatches == 1,
                               Offload::kNone);  // so that those with it share
  key.per_parameter = power(price * held.at_end());
  return prices_.Of(key);
}

const Estimator::Sums* Estimator::SumsOf(const Configuration& c, RecomputePolicy recompute,
                                         int memory_level) {
  const Priced* priced = PricedAs(c, recompute, memory_level);
  if (priced == nullptr) return nullptr;
  std::lock_guard lock(mutex_);
  std::unique_ptr<Sums>& sums = sums_[priced];
  if (sums) return sums.get();
  sums = std::make_unique<Sums>();
  ChoiceCost sum;
  double layers = 0, groups = 0;
  auto push = [&] {
    // What passes between nodes does so in both directions.
    double traffic = (sum.waited + sum.queued) / 2;
    sums->forward.push_back(sum.forward + traffic);
    sums->backward.push_back(sum.backward + traffic);
    sums->weight.push_back(sum.weight);
    sums->activations.push_back(sum.activations);
    sums->held.push_back(sum.held);
    sums->parameters.push_back(sum.parameters);
    sums->reduced.push_back(sum.step_queued);
    sums->layers.push_back(layers);
    sums->gathered_groups.push_back(groups);
  };
  push();
  for (size_t b = 0; b < priced->blocks.size(); ++b) {
    sum += priced->blocks[b];
    if (prices_.model().blocks[b].chain >= 0) {
      layers += 1;
      groups += GatheredGroups(priced->blocks[b].parameters, block_parameters_[b], c.inner());
    }
    sums->most_activations = std::max(sums->most_activations, priced->blocks[b].activations);
    sums->most_parameters = std::max(sums->most_parameters, priced->blocks[b].parameters);
    if (prices_.model().blocks[b].chain < 0) sums->loose_parameters += priced->blocks[b].parameters;
    push();
  }
  return sums.get();
}

HeldBytes Estimator::BytesOf(const Configuration& c, double kept) const {
  return HeldBytesOf(prices_.options().precision, kept, c.zero, static_cast<double>(c.dp),
                     c.microbatches == 1, c.offload);
}

// What a step has beside its micro-batches.
void Estimator::SetEnd(Context& context, double kept) {
  const Configuration& c = *context.configuration;
  const Precision& precision = prices_.options().precision;
  context.bytes = BytesOf(c, kept);
  Terms update = compute_.Update(1, precision);
  update[Term::kLaunch] = 0;
  context.update = kept * update.total();
  if (c.offload == Offload::kOptimizer) {
    // In, and out again at the same time.
    context.host_copies =
        context.bytes.on_host / problem_.cluster.device_types.front().host.bandwidth;
  }
  if (c.zero > 0) context.update /= static_cast<double>(c.dp);
  if (c.dp == 1) return;
  const Traffic& traffic = TrafficOf(c);
  context.statistics = traffic.statistics.seconds;
  context.exposed_statistics = traffic.statistics.exposed_seconds;
  context.reduce_latency = c.zero == 0 ? traffic.reduce_latency : traffic.scatter_latency;
  context.gather_latency = c.zero == 1 || c.zero == 2 ? traffic.gather_latency : 0;
  context.layer_gather_latency = c.zero == 3 ? traffic.gather_latency : 0;
  context.layer_scatter_latency = c.zero == 3 ? traffic.scatter_latency : 0;
  context.reduce = kept * (c.zero == 0 ? traffic.reduce : traffic.scatter);
  context.gather = c.zero == 0 ? 0 : kept * traffic.gather;
}

// Of the data axis, once per mesh.
const Estimator::Traffic& Estimator::TrafficOf(const Configuration& c) {
  std::vector<int64_t> key = c.axes;
  key.push_back(c.dp);
  std::lock_guard lock(mutex_);
  auto [at, fresh] = traffic_.try_emplace(key);
  Traffic& traffic = at->second;
  if (!fresh) return traffic;
  Mesh mesh;
  mesh.axes.push_back(DataAxis(c.dp));
  for (int64_t size : c.axes) mesh.axes.push_back({"", size});
  MeshLinks links(prices_.network(), mesh);
  const Precision& precision = prices_.options().precision;
  double gradient = static_cast<double>(SizeOf(precision.gradients));
  double weight = static_cast<double>(SizeOf(precision.compute));
  constexpr double kMany = 1 << 30;
  auto seconds = [&](CollectiveKind kind, double bytes) {
    return links.BandwidthSeconds(kind, AxisSet(0), bytes * kMany) / kMany;
  };
  traffic.reduce = seconds(CollectiveKind::kAllReduce, gradient);
  traffic.scatter = seconds(CollectiveKind::kReduceScatter, gradient);
  traffic.gather = seconds(CollectiveKind::kAllGather, weight / static_cast<double>(c.dp));
  traffic.reduce_latency = links.Seconds(CollectiveKind::kAllReduce, AxisSet(0), 0);
  traffic.scatter_latency = links.Seconds(CollectiveKind::kReduceScatter, AxisSet(0), 0);
  traffic.gather_latency = links.Seconds(CollectiveKind::kAllGather, AxisSet(0), 0);
  // Models with such statistics have one micro-batch.
  if (!problem_.local_batch_statistics) {
    traffic.statistics = StatisticsAlong(prices_, c.dp, c.axes, c.microbatches);
  }
  return traffic;
}

// Bytes but for what is there for a moment.
PerRecomputePolicy<PolicyCost> Estimator::PolicyCosts(const Context& context, int stage, int first,
                                                      int last) const {
  int device = context.shape.device_of(stage);
  double in_flight = context.schedule->peak_in_flight(context.shape, device);
  double pending = context.schedule->peak_weight_pending(context.shape, device);
  // Between B and W what backward made is kept as well, and what was recomputed.
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
                  context.bytes.at_peak(true) * parameters +
                  kPending * waiting * Sums::Of(context.kept->activations, first, last);
    costs[r].bytes =
        std::max(peak, context.bytes.at_end() * parameters) + Sums::Of(sums->held, first, last);
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
  if (c.zero == 3) {  // weights are gathered twice for every micro-batch, and gradients scattered
    // Beside computation; but what computation waits for waits for them.
    double groups = Sums::Of(context.kept->gathered_groups, first, last);
    double gather = out.parameters * context.gather + groups * context.layer_gather_latency;
    double reduce = out.parameters * context.reduce + groups * context.layer_scatter_latency;
    double backward = out.times.backward + out.times.weight;
    bool waits = !problem_.sim.stack.overlap_weights;
    out.times.forward += waits ? 0.6 * gather : std::max(0.0, gather - out.times.forward);
    out.times.backward +=
        waits ? 0.6 * (gather + reduce) : std::max(0.0, gather + reduce - backward);
  }
  if (c.zero == 2 && !problem_.sim.stack.overlap_gradients) {
    out.times.backward += out.parameters * context.reduce;  // of every micro-batch
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

Estimate Estimator::Of(const Configuration& c, double limit) {
  bool free = !problem_.fixed.recompute;
  Estimate best = AtMemoryLevel(c, 0, !free, limit);
  for (int memory_level = free ? 0 : 1; memory_level < kMemoryLevels && !(best.fits && best.plain);
       ++memory_level) {
    Estimate estimate = AtMemoryLevel(c, memory_level, true, limit);
    bool better = estimate.fits != best.fits ? estimate.fits
                  : estimate.fits            ? estimate.seconds < best.seconds
                                             : best.bytes == 0 || estimate.bytes < best.bytes;
    if (better) best = std::move(estimate);
  }
  return best;
}

Estimate Estimator::CutAt(const Configuration& c, const Estimate& estimate,
                          const std::vector<int>& ends) {
  Estimate out;
  for (bool recompute : {problem_.fixed.recompute.has_value(), true}) {
    out = {};
    out.memory_level = estimate.memory_level;
    if (std::optional<Context> context = ContextOf(c, estimate.memory_level, recompute)) {
      Complete(*context, ends, out);
    }
    if (out.fits) break;
  }
  return out;
}

double Estimator::EstimateWithoutMemory(const Configuration& c, double limit) {
  bool fixed = problem_.fixed.recompute.has_value();
  double least = AtMemoryLevel(c, 0, fixed, 0).seconds;
  int blocks = static_cast<int>(prices_.model().blocks.size());
  // Strategies that mind no memory split few parameters: their traffic over the data axis may take longest.
  for (int memory_level = 1;
       memory_level < kMemoryLevels && c.dp > 1 && c.inner() > 1 && least >= limit;
       ++memory_level) {
    const Sums* sums =
        SumsOf(c, problem_.fixed.recompute.value_or(RecomputePolicy::kNone), memory_level);
    if (sums == nullptr) continue;
    // The busiest device of a pipeline is at work as long as all are on average, at least.
    double busy =
        static_cast<double>(c.microbatches) * sums->Seconds(0, blocks) / static_cast<double>(c.pp);
    if (busy * (1 - 1e-9) < least) {
      least = std::min(least, AtMemoryLevel(c, memory_level, fixed, 0).seconds);
    }
  }
  return least;
}

// Of a node full of the devices that hold most.
bool Estimator::HasHostRoom(const Context& context,
                            const std::vector<StageEstimate>& stages) const {
  if (context.bytes.on_host == 0) return true;
  GroupSpan node = NodeOf(problem_.cluster, DeviceId{0});
  std::optional<int64_t> has = HostLimit(problem_);
  if (!has) return true;
  std::vector<double> parameters(static_cast<size_t>(context.shape.devices), 0);  // by device
  for (size_t s = 0; s < stages.size(); ++s) {
    parameters[s % parameters.size()] += stages[s].parameters;
  }
  double most = *std::max_element(parameters.begin(), parameters.end());
  return static_cast<double>(node.count) * most * context.bytes.on_host <=
         static_cast<double>(*has);
}

// Nothing where no strategies are known.
std::optional<Estimator::Context> Estimator::ContextOf(const Configuration& c, int memory_level,
                                                       bool recompute) {
  Context context;
  context.configuration = &c;
  for (const RecomputeDef& def : kRecomputePolicies) {
    RecomputePolicy policy = def.policy;
    if (problem_.fixed.recompute && policy != *problem_.fixed.recompute) continue;
    if (!recompute && policy != RecomputePolicy::kNone) continue;
    context.sums[static_cast<size_t>(policy)] = SumsOf(c, policy, memory_level);
    if (context.sums[static_cast<size_t>(policy)] == nullptr) return std::nullopt;
  }
  context.kept = SumsOf(c, RecomputePolicy::kNone, memory_level);
  if (context.kept == nullptr) return std::nullopt;
  context.schedule = FindSchedule(c.schedule);
  context.shape.devices = static_cast<int>(c.pp);
  context.shape.chunks = c.chunks;
  context.shape.microbatches = static_cast<int>(c.microbatches);
  if (c.pp > 1) context.shape.transfers = PipelineOf(c).Transfers(SentBytes(c));
  // Of a block at work: what its backward makes, and what was recomputed.
  context.transient = context.kept->most_activations + GatheredBytes(c, *context.kept);
  // Estimates of memory can be some hundredths too high. A plan that then turns out to need too much is fitted by what its
  // program reserves (Refitted); one that is left out here is lost.
  context.room = kMemoryOptimism * limit_ - context.transient;
  SetEnd(context, kept());
  return context;
}

Estimate Estimator::AtMemoryLevel(const Configuration& c, int memory_level, bool recompute,
                                  double limit) {
  Estimate out;
  out.memory_level = memory_level;
  std::optional<Context> context = ContextOf(c, memory_level, recompute);
  if (!context) return out;
  context->limit = limit;
  std::vector<int> ends = Cut(*context);
  Complete(*context, ends, out);
  // Of few micro-batches what a device waits for once counts as well.
  constexpr int64_t kFewRounds = 4;
  if (c.pp == 1 || c.chunks > 1 || c.microbatches >= kFewRounds * c.pp) return out;
  context->minds_waiting = true;
  std::vector<int> others = Cut(*context);
  if (others == ends) return out;
  Estimate other;
  other.memory_level = memory_level;
  Complete(*context, others, other);
  bool better = other.fits != out.fits ? other.fits : other.seconds < out.seconds;
  return better ? other : out;
}

std::optional<Estimate> Estimator::Refitted(const Configuration& c, const Estimate& estimate,
                                            const std::vector<double>& reserved) {
  if (estimate.device_bytes.size() != reserved.size()) return std::nullopt;
  std::vector<int> ends;
  for (const StageEstimate& stage : estimate.stages) ends.push_back(stage.last_block);
  std::optional<Estimate> best;
  // Strategies that mind memory more may cost less time than recomputation, and are all there is where that is fixed.
  for (int memory_level = estimate.memory_level; memory_level < kMemoryLevels; ++memory_level) {
    std::optional<Context> context = ContextOf(c, memory_level, true);
    if (!context) break;
    context->room = limit_ - context->transient;
    for (size_t d = 0; d < reserved.size(); ++d) {
      context->missing.push_back(reserved[d] - estimate.device_bytes[d]);
    }
    Estimate out;
    out.memory_level = memory_level;
    Complete(*context, ends, out);
    bool better = !best || (out.fits && (!best->fits || out.seconds < best->seconds));
    if (better) best = std::move(out);
    if (best->fits && best->plain) break;
  }
  return best;
}

// All but the strategies and where stages end.
void Estimator::Complete(Context& context, const std::vector<int>& ends, Estimate& out) {
  const Configuration& c = *context.configuration;
  out.bytes_per_parameter = context.bytes.at_peak(true);
  context.shape.times.clear();
  out.stages.resize(ends.size());
  out.device_bytes.assign(static_cast<size_t>(c.pp), context.transient);
  out.fits = true;
  for (int d = 0; d < context.shape.devices; ++d) SetDevice(context, ends, d, out);
  for (StageEstimate& stage : out.stages) {
    SetPolicies(stage);
    out.fits = out.fits && stage.fits;
    for (RecomputePolicy policy : stage.recompute) {
      out.plain = out.plain && policy == RecomputePolicy::kNone;
    }
    context.shape.times.push_back(stage.times);
  }
  out.bytes = *std::max_element(out.device_bytes.begin(), out.device_bytes.end());
  out.fits = out.fits && HasHostRoom(context, out.stages);
  PipelineTime pipeline = c.pp == 1 ? PipelineTime{context.schedule->lower_bound(context.shape)}
                                    : PipelineSeconds(*context.schedule, context.shape,
                                                      PipelineOf(c), SentBytes(c), context.limit);
  out.by_links = pipeline.by_links;
  out.coarse = pipeline.coarse;
  auto seconds = [&](int64_t bucket_bytes) {
    return std::max(pipeline.seconds, ReducedEachSeconds(context, out, bucket_bytes)) +
           EndSeconds(context, out, bucket_bytes) + TiedSeconds(c) + context.statistics;
  };
  out.bucket_bytes = problem_.bucket_bytes;
  out.seconds = seconds(out.bucket_bytes);
  // Where latencies count, larger buckets. Judging looks for the best size around these (bucket_sizes.h).
  constexpr double kWorth = 0.99;
  constexpr int64_t kMost = int64_t{1} << 30;
  bool free = c.dp > 1 && c.zero < 3 && c.offload == Offload::kNone;
  for (int64_t larger = 4 * problem_.bucket_bytes; free && larger <= kMost; larger *= 4) {
    double with = seconds(larger);
    if (with >= kWorth * out.seconds) continue;
    out.seconds = with;
    out.bucket_bytes = larger;
  }
}

}  // namespace heddle
