// Traffic in estimates and floors: messages between stages, collectives on the data axis, and what
// follows the last backward.
#include <algorithm>
#include <numeric>

#include "plan/axes.h"
#include "search/explore/estimate_internal.h"
#include "search/prices/links.h"

namespace heddle {

// The hop from a device to the one `mesh` devices later, when all devices of a stage send to the
// next at the same time.
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

// The fastest transfer between any two neighbouring stages, and the all-reduce of all devices
// before updates. The devices of a stage are alike and send at the same time, each its part.
Estimator::Links Estimator::LinksOf(const Configuration& c) {
  constexpr int64_t kHops = 16;  // further hops repeat these
  int64_t mesh = c.dp * c.inner(), all = mesh * c.pp;
  std::lock_guard lock(mutex_);
  auto [reported, unknown] = reports_.try_emplace(all, 0);
  if (unknown) {
    Mesh whole;
    whole.axes.push_back({"all", all});
    MeshLinks links(prices_.network(), whole);
    reported->second = links.Seconds(CollectiveKind::kAllReduce, AxisSet(0), 2 * sizeof(double));
  }
  Links links{reported->second, 0};
  if (c.pp == 1) return links;
  auto [at, fresh] = hops_.try_emplace({mesh, std::min(c.pp, kHops)});
  Hop& hop = at->second;
  for (int64_t s = 0; fresh && s + 1 < std::min(c.pp, kHops); ++s) {
    Hop one = HopBetween(s * mesh, mesh);
    if (s > 0) one = {std::min(one.latency, hop.latency), std::min(one.per_byte, hop.per_byte)};
    hop = one;
  }
  double bytes = counts_.least_crossing_bytes / static_cast<double>(c.microbatches * mesh);
  links.transfer = hop.latency + bytes * hop.per_byte;
  return links;
}

// Bytes that a device sends to its counterpart in the next stage, per micro-batch.
double Estimator::SentBytes(const Configuration& c) const {
  return counts_.crossing_bytes / static_cast<double>(c.microbatches * c.dp * c.inner());
}

const PipelineLinks& Estimator::PipelineOf(const Configuration& c) {
  int64_t mesh = c.dp * c.inner();
  std::lock_guard lock(mutex_);
  return pipelines_.try_emplace({mesh, c.pp}, prices_.network(), mesh, c.pp).first->second;
}

// Gradients of parameters that the first and the last stage share are added up between the two.
double Estimator::TiedSeconds(const Configuration& c) const {
  if (c.pp == 1 || counts_.tied_across_middle == 0) return 0;
  int64_t mesh = c.dp * c.inner();
  double gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  int64_t parts = c.inner() * (c.zero > 0 ? c.dp : 1);  // under ZeRO each rank adds up its shard
  double bytes = counts_.tied_across_middle * gradient / static_cast<double>(parts);
  return TimeOfMessages(prices_.network(), (c.pp - 1) * mesh, mesh, bytes).seconds();
}

// Traffic on the data axis, found once per mesh.
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
  constexpr double kManyBytes = 1 << 30;
  auto seconds = [&](CollectiveKind kind, double bytes) {
    return links.BandwidthSeconds(kind, AxisSet(0), bytes * kManyBytes) / kManyBytes;
  };
  traffic.reduce = seconds(CollectiveKind::kAllReduce, gradient);
  traffic.scatter = seconds(CollectiveKind::kReduceScatter, gradient);
  traffic.gather = seconds(CollectiveKind::kAllGather, weight / static_cast<double>(c.dp));
  traffic.reduce_latency = links.Seconds(CollectiveKind::kAllReduce, AxisSet(0), 0);
  traffic.scatter_latency = links.Seconds(CollectiveKind::kReduceScatter, AxisSet(0), 0);
  traffic.gather_latency = links.Seconds(CollectiveKind::kAllGather, AxisSet(0), 0);
  // Models with batch statistics have one micro-batch.
  if (!problem_.local_batch_statistics) {
    traffic.statistics = StatisticsAlong(prices_, c.dp, c.axes, c.microbatches);
  }
  return traffic;
}

// The terms of a step beside its micro-batches.
Estimator::StepCosts Estimator::StepCostsOf(const Configuration& c, double kept) {
  StepCosts out;
  const Precision& precision = prices_.options().precision;
  out.bytes = BytesOf(c, kept);
  Terms update = compute_.Update(1, precision);
  update[Term::kLaunch] = 0;
  out.update = kept * update.total();
  if (c.offload == Offload::kOptimizer) {
    // Copies in and out run at the same time.
    out.host_copies = out.bytes.on_host / problem_.cluster.device_types.front().host.bandwidth;
  }
  if (c.zero > 0) out.update /= static_cast<double>(c.dp);
  if (c.dp == 1) return out;
  const Traffic& traffic = TrafficOf(c);
  out.statistics = traffic.statistics.seconds;
  out.exposed_statistics = traffic.statistics.exposed_seconds;
  out.reduce_latency = c.zero == 0 ? traffic.reduce_latency : traffic.scatter_latency;
  out.gather_latency = c.zero == 1 || c.zero == 2 ? traffic.gather_latency : 0;
  out.layer_gather_latency = c.zero == 3 ? traffic.gather_latency : 0;
  out.layer_scatter_latency = c.zero == 3 ? traffic.scatter_latency : 0;
  out.reduce = kept * (c.zero == 0 ? traffic.reduce : traffic.scatter);
  out.gather = c.zero == 0 ? 0 : kept * traffic.gather;
  return out;
}

// ZeRO 2: when the gradients of all micro-batches are scattered. They are scattered one after the
// other, and the first of them follows the forwards that precede the first backward.
double Estimator::ReducedEachSeconds(const Context& context, const Estimate& estimate,
                                     int64_t bucket_bytes) const {
  const Configuration& c = *context.configuration;
  if (c.zero != 2 || !problem_.sim.stack.overlap_gradients) return 0;
  double per_parameter =
      context.step.reduce + context.step.reduce_latency * GroupsPerParameter(c, bucket_bytes);
  double last = 0;
  for (size_t d = 0; d < static_cast<size_t>(c.pp); ++d) {
    double forward = 0, parameters = 0;  // `forward`: of a chunk, on average
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

// The number of collectives per parameter element that a device holds.
double Estimator::GroupsPerParameter(const Configuration& c, int64_t bucket_bytes) const {
  if (c.dp == 1 || c.zero == 3) return 0;
  double gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  return groups_.PerElement(static_cast<double>(bucket_bytes) / gradient,
                            static_cast<double>(c.inner()));
}

// Seconds after the last backward: the remaining reductions, the updates, and under ZeRO 1 and 2
// the gathering of weights, on the device for which they take longest.
double Estimator::EndSeconds(const Context& context, const Estimate& estimate,
                             int64_t bucket_bytes) const {
  const Configuration& c = *context.configuration;
  double groups = GroupsPerParameter(c, bucket_bytes);
  double update = std::max(context.step.update, context.step.host_copies), end = 0;
  for (int d = 0; d < context.shape.devices; ++d) {
    std::vector<double> reduce;  // by chunk
    double parameters = 0;
    for (int s = d; s < context.shape.stages(); s += context.shape.devices) {
      const StageEstimate& stage = estimate.stages[static_cast<size_t>(s)];
      double each = c.zero >= 2 ? 0 : context.step.reduce + groups * context.step.reduce_latency;
      reduce.push_back(stage.reduced + stage.parameters * each);
      parameters += stage.parameters;
    }
    double exposed = problem_.sim.stack.overlap_gradients
                         ? ExposedReduction(context.shape, d, reduce)
                         : std::accumulate(reduce.begin(), reduce.end(), 0.0);
    double gather =
        c.zero == 3 ? 0 : parameters * (context.step.gather + groups * context.step.gather_latency);
    end = std::max(end, exposed + parameters * update + gather);
  }
  return end;
}

}  // namespace heddle
