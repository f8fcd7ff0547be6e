// Traffic in the expert's estimates: messages between stages, collectives over the data ranks, and
// what follows the last backward.
#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/axes.h"
#include "plan/expert_strategies.h"
#include "search/expert/expert_estimate_internal.h"

namespace heddle {

// Counts the bytes that cross a cut at the beginning of a middle layer.
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

// Bytes that a device sends to its counterpart in the next stage. Without sequence parallelism tp
// ranks hold the same activations.
double ExpertEstimator::SentBytes(const Degrees& d) const {
  int64_t parts = d.dp * d.cp * (d.sp ? d.tp : 1);
  return crossing_bytes_ / static_cast<double>(d.microbatches * parts);
}

const PipelineLinks& ExpertEstimator::PipelineOf(const Degrees& d) {
  int64_t mesh = d.dp * d.cp * d.tp;
  std::lock_guard lock(mutex_);
  return pipelines_.try_emplace({mesh, d.pp}, prices_.network(), mesh, d.pp).first->second;
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
  constexpr double kManyBytes = 1 << 30;
  auto of = [&](AxisMask axes) {
    Traffic traffic;
    if (axes == 0) return traffic;
    auto seconds = [&](CollectiveKind kind, double bytes) {
      return links.BandwidthSeconds(kind, axes, bytes * kManyBytes) / kManyBytes;
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

// Collectives per element on a device, of dense and of expert parameters.
std::pair<double, double> ExpertEstimator::GroupsPerElement(const Degrees& d,
                                                            int64_t bucket_bytes) const {
  double elements = static_cast<double>(bucket_bytes) /
                    static_cast<double>(SizeOf(prices_.precision().gradients));
  return {groups_.PerElement(elements, static_cast<double>(d.tp)),
          groups_.PerElement(elements, static_cast<double>(d.tp * d.ep))};
}

// The gradients of every micro-batch that are scattered beside computation, and under ZeRO 3 the
// weights that are gathered twice: what of this traffic computation waits for is added to the times
// of the stages.
void ExpertEstimator::AddMicrobatchTraffic(Context& context) {
  const Degrees& d = *context.degrees;
  auto [dense, expert] = TrafficOf(d);
  auto [dense_groups, expert_groups] = GroupsPerElement(d, problem_.bucket_bytes);
  for (int s = 0; s < context.shape.stages() && d.zero >= 2; ++s) {
    HalfTimes& at = context.shape.times[static_cast<size_t>(s)];
    double of_dense = context.Of(&ExpertSums::dense, s);
    double of_expert = context.Of(&ExpertSums::expert, s);
    double gather = d.zero == 3 ? of_dense * dense.gather + of_expert * expert.gather : 0;
    double reduce = of_dense * dense.scatter + of_expert * expert.scatter;
    if (d.zero == 3) {  // parameters that are split along other axes are a group of their own
      double groups = context.Of(&ExpertSums::layers, s) * (d.tp > 1 ? 2 : 1);
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
}

// Seconds after the last backward: exposed reductions, updates and the gathering of updated
// weights, on the device for which they take longest. `times` are those of the stages without the
// traffic of micro-batches.
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
      double more_dense = context.Of(&ExpertSums::dense, s);
      double more_expert = context.Of(&ExpertSums::expert, s);
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

}  // namespace heddle
