#include "plan/expert.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "base/divisors.h"
#include "base/error.h"
#include "base/integers.h"
#include "base/log.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "plan/balance.h"
#include "plan/expert_strategies.h"
#include "plan/gradient_sync.h"
#include "plan/units.h"

namespace heddle {
namespace {

std::string Listed(const Degrees& degrees) {
  std::vector<std::string> words;
  for (const ParallelAxis* axis : DeviceFactors())
    words.push_back(fmt::format("{} {}", axis->name, degrees.*axis->degree));
  return fmt::format("{}", fmt::join(words, " x "));
}

// Names every degree that makes the product fit when it alone is changed.
std::string Alternatives(const Degrees& degrees, int64_t devices) {
  std::vector<std::string> words;
  for (const ParallelAxis* axis : DeviceFactors()) {
    int64_t degree = degrees.*axis->degree, others = DevicesOf(degrees) / degree;
    if (degree > 1 && others <= devices)
      words.push_back(fmt::format("{} {}", axis->name, devices / others));
  }
  if (words.empty()) return fmt::format("try {} {} alone", kDataAxis, devices);
  return fmt::format("try {}", fmt::join(words, " or "));
}

void CheckCluster(const Cluster& cluster, const Degrees& degrees) {
  int64_t used = DevicesOf(degrees), devices = DeviceCount(cluster);
  if (used > devices) {
    ThrowInput("{} = {} devices, more than the {} of the cluster: {}", Listed(degrees), used,
               devices, Alternatives(degrees, devices));
  }
  RequireHost(cluster, degrees.offload);
}

void CheckDegrees(const Degrees& degrees) {
  if (degrees.ep > degrees.dp || degrees.dp % degrees.ep != 0) {
    ThrowInput("ep {} does not divide dp {}: experts are spread over the data axis; try ep {}",
               degrees.ep, degrees.dp, std::gcd(degrees.ep, degrees.dp));
  }
  if (degrees.sp && degrees.tp == 1) {
    ThrowInput("sp splits the sequence over the tensor axis: it needs tp of at least 2, not 1");
  }
  if (degrees.zero < 0 || degrees.zero > kMostZero) {
    ThrowInput("zero {}: there are levels 0, 1, 2 and 3", degrees.zero);
  }
  auto check = [](std::string_view what, DType dtype) {
    if (dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16) return;
    ThrowInput("{} {}: use f32, bf16 or f16", what, Name(dtype));
  };
  check("precision", degrees.precision);
  check("gradients", degrees.gradients);
  if (degrees.zero > DefOf(degrees.sync).most_zero) {
    ThrowInput("sync {} with zero {}: there the replicas share out the gradients; use zero 0 or 1",
               Name(degrees.sync), degrees.zero);
  }
  if (degrees.products == Products::kFp8 && degrees.precision == DType::kF32) {
    ThrowInput("products of fp8 are made of bf16 or f16, not of f32: use one of them");
  }
}

void CheckZeroRanks(const Degrees& degrees) {
  if (degrees.zero_ranks == 0) return;
  if (degrees.zero_ranks < 0 || degrees.zero_ranks > degrees.dp ||
      degrees.dp % degrees.zero_ranks != 0) {
    ThrowInput("zero_ranks {} does not divide dp {}: state is split among neighbours along it",
               degrees.zero_ranks, degrees.dp);
  }
  if (degrees.ep > 1 && degrees.zero_ranks < degrees.dp) {
    ThrowInput("zero_ranks {} with ep {}: one of them can part the data axis; use zero_ranks {}",
               degrees.zero_ranks, degrees.ep, degrees.dp);
  }
}

void CheckShares(const Model& model, const Degrees& degrees) {
  if (degrees.shares.empty()) return;
  auto count = std::ssize(degrees.shares);
  if (count != degrees.dp) {
    ThrowInput("{} shares for dp {}: give one for each data rank", count, degrees.dp);
  }
  if (degrees.ep > 1 || (degrees.zero_ranks > 0 && degrees.zero_ranks < degrees.dp)) {
    ThrowInput("shares of the data ranks with ep {} and zero_ranks {}: they part the same axis",
               degrees.ep, degrees.zero_ranks);
  }
  int64_t samples = std::max<int64_t>(1, BatchSize(model)) / degrees.microbatches, sum = 0;
  for (int64_t share : degrees.shares) {
    if (share < 1 || share > samples) {
      ThrowInput("a share of {}: a data rank has 1 to the {} samples of a micro-batch", share,
                 samples);
    }
    sum += share;
  }
  if (samples % sum != 0) {
    ThrowInput(
        "shares of {} in all do not divide a micro-batch of {} samples: let them add up to {}", sum,
        samples,
        LargestDivisorUpTo(samples, sum) >= count ? LargestDivisorUpTo(samples, sum) : samples);
  }
}

void CheckBatch(const Model& model, const Degrees& degrees) {
  int64_t batch = BatchSize(model);
  if (batch == 0) {
    if (degrees.dp == 1 && degrees.microbatches == 1) return;
    ThrowInput("dp {} with {} micro-batches: {}", degrees.dp, degrees.microbatches, model.no_batch);
  }
  if (batch % degrees.microbatches != 0) {
    ThrowInput("a batch of {} is not divisible into {} micro-batches: try {}, or another batch",
               batch, degrees.microbatches, LargestDivisorUpTo(batch, degrees.microbatches));
  }
  int64_t samples = batch / degrees.microbatches;
  if (samples < degrees.dp) {
    int64_t fewer = LargestDivisorUpTo(batch, std::max<int64_t>(1, batch / degrees.dp));
    std::string remedy =
        fmt::format("dp {} or a batch of {}", samples, degrees.dp * degrees.microbatches);
    if (fewer < degrees.microbatches) remedy = fmt::format("{} micro-batches, {}", fewer, remedy);
    ThrowInput("a micro-batch of {} samples (a batch of {} / {}) is less than dp {}: try {}",
               samples, batch, degrees.microbatches, degrees.dp, remedy);
  }
}

// The flops of F, B and W of one micro-batch, per block.
std::vector<HalfTimes> BlockWork(const Model& model, int64_t microbatches) {
  Rules rules = MicroRules(model, microbatches);
  std::vector<HalfTimes> work;
  for (const ModelBlock& block : model.blocks) {
    HalfTimes sum{0, 0, 0};
    for (NodeId id : block.nodes) {
      const Rule& rule = rules[id.index()];
      Halves halves = NodeWork(model.graph.node(id), rule, model.flow, WholeBlocks(rule));
      sum.forward += halves.forward.flops;
      sum.backward += halves.backward.flops;
      sum.weight += halves.weight.flops;
    }
    work.push_back(sum);
  }
  return work;
}

// Makes stages without strategies. Times are at least 1: schedules divide by them.
std::vector<Stage> MakeStages(const Model& model, const Degrees& degrees, const Mesh& mesh) {
  std::vector<HalfTimes> work = BlockWork(model, degrees.microbatches);
  std::vector<Stage> stages;
  int first = 0;
  std::vector<double> flops;
  for (const HalfTimes& w : work) flops.push_back(w.forward + w.backward + w.weight);
  for (int end : ExpertEnds(model, degrees, flops)) {
    Stage stage;
    stage.first_block = first;
    stage.last_block = end;
    stage.mesh = mesh;
    stage.mesh.first = std::ssize(stages) % degrees.pp * mesh.size();
    stage.recompute.assign(ToSize(end - first), degrees.recompute);
    stage.times = {0, 0, 0};
    for (int b = first; b < end; ++b) {
      const HalfTimes& w = work[ToSize(b)];
      stage.times.forward += w.forward;
      stage.times.backward += w.backward;
      stage.times.weight += w.weight;
    }
    stage.times.forward = std::max(1.0, stage.times.forward);
    stage.times.backward = std::max(1.0, stage.times.backward);
    stage.times.weight = std::max(1.0, stage.times.weight);
    stages.push_back(std::move(stage));
    first = end;
  }
  return stages;
}

std::vector<int> StageOf(const Model& model, const std::vector<Stage>& stages) {
  std::vector<int> stage_of(model.graph.nodes.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id : NodesOf(model, stages[s])) stage_of[id.index()] = ToInt(s);
  }
  return stage_of;
}

void HandOut(const Model& model, const std::vector<Strategy>& strategies, Stage& stage) {
  stage.strategies.resize(strategies.size());
  std::vector<NodeId> nodes = NodesOf(model, stage);
  for (NodeId id : nodes) stage.strategies[id.index()] = strategies[id.index()];
  for (NodeId id : SideNodesOf(model, nodes)) stage.strategies[id.index()] = strategies[id.index()];
}

}  // namespace

int64_t LayersOf(const Model& model) {
  return std::count_if(model.blocks.begin(), model.blocks.end(),
                       [](const ModelBlock& block) { return block.chain >= 0; });
}

std::vector<int> StageEnds(const Model& model, const std::vector<int64_t>& layers, size_t stages) {
  if (layers.size() != stages) {
    ThrowInput("layers per stage are given for {} stages, and there are {}: pp x chunks",
               layers.size(), stages);
  }
  int64_t sum = 0;
  for (size_t s = 0; s < stages; ++s) {
    bool end = s == 0 || s + 1 == stages;
    if (layers[s] < (end ? 0 : 1)) {
      ThrowInput("stage {} has {} layers: {}", s, layers[s],
                 end ? "use 0 or more" : "only the first and the last stage can have none");
    }
    sum = CheckedAdd(sum, layers[s], "the layers of all stages");
  }
  if (int64_t all = LayersOf(model); sum != all) {
    ThrowInput("layers per stage {} are {} layers, and the model has {} repeated blocks",
               fmt::join(layers, ","), sum, all);
  }
  // A stage ends where the first layer of the next one begins. If the next one has no layers, it ends after its own last
  // layer.
  std::vector<int> starts;  // the first block of every layer, then the block after the last layer
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    if (model.blocks[b].chain >= 0) starts.push_back(ToInt(b));
  }
  if (!starts.empty()) starts.push_back(starts.back() + 1);
  std::vector<int> ends;
  int64_t before = 0;
  for (size_t s = 0; s + 1 < stages; ++s) {
    before += layers[s];
    ends.push_back(starts.empty() ? 0 : starts[ToSize(before)]);
    int begin = s == 0 ? 0 : ends[s - 1];
    if (ends.back() <= begin)
      ThrowInput("stage {} has no layers and nothing else: give it a layer, or use fewer stages",
                 s);
  }
  ends.push_back(ToInt(model.blocks.size()));
  if (stages > 1 && ends[stages - 1] <= ends[stages - 2])
    ThrowInput("stage {} has no layers and nothing else: give it a layer, or use fewer stages",
               stages - 1);
  return ends;
}

std::vector<int64_t> LayersPerStage(const Model& model, const std::vector<int>& ends) {
  std::vector<int64_t> layers;
  int first = 0;
  for (int end : ends) {
    layers.push_back(std::count_if(model.blocks.begin() + first, model.blocks.begin() + end,
                                   [](const ModelBlock& block) { return block.chain >= 0; }));
    first = end;
  }
  try {
    if (StageEnds(model, layers, layers.size()) == ends) return layers;
  } catch (const InputError&) {
    // No numbers of layers give stages with these ends.
  }
  return {};
}

std::vector<int> ExpertEnds(const Model& model, const Degrees& degrees,
                            const std::vector<double>& flops) {
  int64_t stages = CheckedMul(degrees.pp, degrees.chunks, "the number of stages");
  auto blocks = std::ssize(model.blocks);
  if (stages > blocks) {
    ThrowInput("pp {} x {} chunks = {} stages, and the model has {} blocks: pp can be at most {}",
               degrees.pp, degrees.chunks, stages, blocks,
               std::max<int64_t>(1, blocks / degrees.chunks));
  }
  if (!degrees.layers_per_stage.empty())
    return StageEnds(model, degrees.layers_per_stage, ToSize(stages));
  ModelUnits units = UnitsOf(model);
  if (stages > units.count()) return Balance(flops, ToInt(stages));
  std::vector<double> of_units;
  for (int u = 0; u < units.count(); ++u) {
    auto first = flops.begin() + units.begins[ToSize(u)];
    auto last = flops.begin() + units.begins[ToSize(u) + 1];
    of_units.push_back(std::accumulate(first, last, 0.0));
  }
  std::vector<int> ends;
  if (degrees.chunks > 1) {
    ends = CutEvenly(units, of_units, ToInt(degrees.pp), ToInt(degrees.chunks));
  } else {
    ends = Balance(of_units, ToInt(stages));
  }
  for (int& end : ends) end = units.begins[ToSize(end)];
  return ends;
}

int64_t DevicesOf(const Degrees& degrees) {
  auto check = [](std::string_view name, int64_t value) {
    if (value < 1) ThrowInput("{} {}: a degree is at least 1", name, value);
  };
  for (const ParallelAxis* axis : DeviceFactors()) check(axis->name, degrees.*axis->degree);
  for (const ParallelAxis& axis : AllAxes()) {
    if (axis.is_degree() && axis.within != nullptr) check(axis.name, degrees.*axis.degree);
  }
  check("microbatches", degrees.microbatches);
  check("chunks", degrees.chunks);
  int64_t devices = 1;
  for (const ParallelAxis* axis : DeviceFactors())
    devices = CheckedMul(devices, degrees.*axis->degree, "the number of devices");
  return devices;
}

Plan ExpertPlan(const Model& model, const Cluster& cluster, const Degrees& degrees) {
  CheckCluster(cluster, degrees);
  CheckDegrees(degrees);
  CheckZeroRanks(degrees);
  CheckBatch(model, degrees);
  CheckShares(model, degrees);
  Plan plan;
  plan.model.hash = StableHash(model.graph);
  plan.cluster = cluster;
  plan.batch = std::max<int64_t>(1, BatchSize(model));
  plan.microbatches = degrees.microbatches;
  plan.schedule = degrees.schedule;
  plan.chunks = degrees.chunks;
  plan.precision.compute = degrees.precision;
  plan.precision.gradients = degrees.gradients;
  plan.precision.products = degrees.products;
  plan.local_batch_statistics = degrees.local_batch_statistics;
  if (degrees.microbatches > 1) FindMicrobatchSums(model, degrees.local_batch_statistics);
  Mesh mesh = ExpertMesh(degrees);
  plan.zero.level = degrees.zero;
  bool hybrid = degrees.zero_ranks > 0 && degrees.zero_ranks < degrees.dp;
  for (const MeshAxis& axis : mesh.axes) {
    const ParallelAxis* known = FindAxis(axis.name);
    bool copies = hybrid && known->role == AxisRole::kReplicatedData;
    if (!ReplicatesParameters(known->role) || copies) continue;
    if (SplitsState(degrees.zero)) plan.zero.axes.push_back(axis.name);
  }
  plan.offload = degrees.offload;
  plan.stages = MakeStages(model, degrees, mesh);
  std::vector<Strategy> strategies =
      ExpertStrategies(model, degrees, mesh, StageOf(model, plan.stages));
  for (Stage& stage : plan.stages) HandOut(model, strategies, stage);
  SetSync(model, degrees.sync, plan.stages);
  return plan;
}

void Remark(const Cluster& cluster, const Degrees& degrees, int64_t batch) {
  int64_t used = DevicesOf(degrees), devices = DeviceCount(cluster);
  if (used < devices) {
    LogInfo("{} = {}: {} of the cluster's {} devices are left idle", Listed(degrees), used,
            devices - used, devices);
  }
  int64_t node = NodeOf(cluster, DeviceId{0}).count;
  if (degrees.tp > node) {
    LogWarn("tp {} reaches beyond one node of {} devices, over its slower links", degrees.tp, node);
  }
  if (batch / degrees.microbatches % degrees.dp != 0) {
    LogWarn("a micro-batch of {} samples is not divisible by dp {}: some devices have less to do",
            batch / degrees.microbatches, degrees.dp);
  }
}

}  // namespace heddle
