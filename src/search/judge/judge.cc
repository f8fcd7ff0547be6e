#include "search/judge/judge.h"

#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "cluster/topology.h"
#include "program/lower.h"
#include "search/judge/short_step.h"
#include "search/prices/held_bytes.h"
#include "search/solver/problem.h"
#include "sim/memory.h"

namespace heddle {
namespace {

int64_t RecomputedBlocks(const Plan& plan) {
  int64_t count = 0;
  for (const Stage& stage : plan.stages) {
    count += std::count_if(stage.recompute.begin(), stage.recompute.end(),
                           [](RecomputePolicy policy) { return policy != RecomputePolicy::kNone; });
  }
  return count;
}

// Bytes of weights and optimizer state on a device of a stage.
int64_t LeastBytes(const Model& model, const Plan& plan, const Stage& stage) {
  if (plan.offload == Offload::kAll) return 0;  // only one shard of them at a time
  double ranks = 1;
  for (const MeshAxis& axis : stage.mesh.axes) {
    auto named = std::find(plan.zero.axes.begin(), plan.zero.axes.end(), axis.name);
    if (named != plan.zero.axes.end()) ranks *= static_cast<double>(axis.size);
  }
  double bytes = 0;
  std::set<ValueId> seen;
  for (NodeId id : NodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (model.graph.value(node.operands[o]).kind != ValueKind::kParameter) continue;
      if (!model.flow.needed[node.operands[o].index()]) continue;
      if (!seen.insert(node.operands[o]).second) continue;
      double elements = 1;
      Sharding sharding =
          OperandSharding(stage.mesh, model.rules[id.index()], stage.strategies[id.index()], o);
      for (int64_t n : LocalShape(stage.mesh, sharding, Position(stage.mesh.axes.size(), 0))) {
        elements *= static_cast<double>(n);
      }
      double kept = 1;  // fraction of the weights that have state
      auto pruned = plan.pruning.kept.find(model.graph.value(node.operands[o]).name);
      if (pruned != plan.pruning.kept.end()) {
        const TensorType& type = model.graph.value(node.operands[o]).type;
        kept = static_cast<double>(pruned->second * SizeOf(type.dtype)) /
               static_cast<double>(ByteCount(type));
      }
      HeldBytes held =
          HeldBytesOf(plan.precision, kept, plan.zero.level, ranks, true, plan.offload);
      bytes += elements * (held.weights + held.state);
    }
  }
  return static_cast<int64_t>(bytes);
}

// The memory limit of the smallest device of a mesh.
int64_t LeastLimit(const SearchTask& task, const Mesh& mesh) {
  if (task.cluster.device_types.size() == 1) return MemoryLimit(task);
  int64_t least = INT64_MAX;
  for (int64_t device : DevicesOf(mesh)) least = std::min(least, MemoryLimit(task, device));
  return least;
}

// Host memory of a machine all of whose devices are like the one that uses most host memory.
void SetHost(const SearchTask& task, JudgedPlan& judged) {
  if (judged.plan.offload == Offload::kNone) return;
  GroupSpan node = NodeOf(task.cluster, DeviceId{0});
  for (const DeviceResult& device : judged.result.devices) {
    judged.host_bytes = std::max(judged.host_bytes, node.count * device.host_memory);
  }
  judged.host_limit = HostLimit(task);
}

}  // namespace

bool Recomputes(const Plan& plan) { return RecomputedBlocks(plan) > 0; }

std::function<bool()> Impatience(const SearchTask& task) {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kGrace(500);
  return [&task, over_since = std::optional<Clock::time_point>()]() mutable {
    if (!task.effort.Over()) return false;
    if (!over_since) over_since = Clock::now();
    return Clock::now() - *over_since >= kGrace;
  };
}

double SimulationSize(const SearchTask& task, const Plan& plan) {
  return static_cast<double>(task.model.graph.nodes.size()) *
         static_cast<double>(SimulatedMicrobatches(task, plan));
}

double SimulationSize(const SearchTask& task, int64_t microbatches, int64_t pp,
                      const std::string& schedule) {
  return static_cast<double>(task.model.graph.nodes.size()) *
         static_cast<double>(SimulatedMicrobatches(task, microbatches, pp, schedule));
}

namespace {

// Bytes that the caching allocator reserves, per device of the pipeline.
std::vector<double> ReservedOf(const SearchTask& task, ShortStep& step) {
  MemoryModel model(step.program, HabitsOf(task.sim));
  ReplayOptions options;
  options.timeline = false;
  options.allocator = true;
  std::vector<int64_t> devices;
  for (const DeviceProgram& run : step.program.runs) {
    if (!run.stages.empty()) devices.push_back(run.devices.front());
  }
  std::vector<MemoryTimeline> timelines(devices.size());
  InParallel(devices.size(), [&](size_t d) { timelines[d] = Replay(model, devices[d], options); });
  std::vector<double> reserved;
  for (size_t d = 0; d < devices.size(); ++d) {
    reserved.push_back(static_cast<double>(timelines[d].reserved));
    step.replayed[devices[d]] = std::move(timelines[d]);
  }
  return reserved;
}

// Makes the plan and adds the settings that the problem fixes.
void Complete(const SearchTask& task, Proposal& proposal) {
  proposal.MakePlan();
  proposal.plan.pruning = task.pruning;
  SetOptimizer(proposal.plan, task.optimizer);
}

// A proposal that recomputes as many layers as the memory limit requires, with its program.
struct Fitted {
  Proposal proposal;
  ShortStep step;
};

// Is the estimate of `a` less than this fraction of that of `b`? If the estimates are equal, because devices wait for something
// else, the plan that recomputes less is better.
bool IsBetter(const Proposal& a, const Proposal& b, double share) {
  if (a.estimate != b.estimate) return a.estimate < share * b.estimate;
  return RecomputedBlocks(a.plan) < RecomputedBlocks(b.plan);
}

Fitted Fit(const SearchTask& task, RebatchedModels& models, Proposal proposal,
           const std::atomic<bool>* abandoned) {
  constexpr int kTries = 4;
  constexpr double kGain = 0.998;  // another try must be estimated to take at most this fraction
  // Memory estimates of convolution nets can be half of the real value. A plan with an estimate below this fraction of the limit
  // fits without changes.
  constexpr double kSurelyFits = 0.4;
  auto limit = static_cast<double>(MemoryLimit(task));
  Fitted now{std::move(proposal), {}};
  now.step = LowerShort(task, models, now.proposal.plan);
  if (!now.proposal.refit) return now;
  if (now.proposal.bytes < kSurelyFits * limit && !Recomputes(now.proposal.plan)) return now;
  std::optional<Fitted> best;
  std::vector<Plan> tried;
  for (int tries = 0;; ++tries) {
    if (abandoned != nullptr && *abandoned) throw SimulationStopped();
    std::vector<double> reserved = ReservedOf(task, now.step);
    bool fits = *std::max_element(reserved.begin(), reserved.end()) <= limit;
    std::optional<Proposal> next;
    bool again = now.proposal.refit && tries < kTries && !task.effort.Over();
    if (again) next = now.proposal.refit(reserved);
    if (next) Complete(task, *next);
    tried.push_back(now.proposal.plan);
    if (fits && (!best || IsBetter(now.proposal, best->proposal, 1))) best = std::move(now);
    bool known = next && std::find(tried.begin(), tried.end(), next->plan) != tried.end();
    if (!next || known || (best && !IsBetter(*next, best->proposal, kGain))) {
      return best ? std::move(*best) : std::move(now);
    }
    now = {std::move(*next), {}};
    now.step = LowerShort(task, models, now.proposal.plan);
  }
}

void SetNames(JudgedPlan& judged, Proposal& proposal) {
  judged.plan = std::move(proposal.plan);
  judged.from = std::move(proposal.from);
  judged.estimate = proposal.estimate;
  judged.estimated_bytes = proposal.bytes;
  judged.bound = proposal.bound;
  judged.factors = proposal.factors;
  judged.refit = std::move(proposal.refit);
  judged.improve = std::move(proposal.improve);
  judged.kind = std::move(proposal.kind);
}

}  // namespace

JudgedPlan Judge(const SearchTask& task, Proposal proposal, const JudgeOptions& options) {
  if (proposal.judged) return *proposal.judged;
  // Lowering and fitting plans for very many devices takes long and cannot be interrupted.
  constexpr int64_t kManyDevices = 65'536;
  if (task.effort.Over() && DeviceCount(task.cluster) > kManyDevices) throw SimulationStopped();
  JudgedPlan judged;
  Complete(task, proposal);
  bool parameters_fit = true;
  for (const Stage& stage : proposal.plan.stages) {
    int64_t bytes = LeastBytes(task.model, proposal.plan, stage);
    judged.least_bytes = std::max(judged.least_bytes, bytes);
    parameters_fit = parameters_fit && bytes <= LeastLimit(task, stage.mesh);
  }
  judged.memory_limit = MemoryLimit(task);
  judged.simulated = parameters_fit || task.effort.simulate_all;
  if (!judged.simulated) {
    SetNames(judged, proposal);
    return judged;
  }
  SimOptions sim = task.sim;
  sim.stopped = [over = Impatience(task), abandoned = options.abandoned]() mutable {
    return (abandoned != nullptr && *abandoned) || over();
  };
  RebatchedModels own(task.model);
  RebatchedModels* models = options.models == nullptr ? &own : options.models;
  Fitted fitted = Fit(task, *models, std::move(proposal), options.abandoned);
  if (options.fitted) options.fitted(fitted.proposal);
  SetNames(judged, fitted.proposal);
  judged.replayed = !fitted.step.replayed.empty();
  if (judged.replayed) judged.estimated_bytes = 0;
  for (const auto& [device, timeline] : fitted.step.replayed) {
    judged.estimated_bytes = std::max(judged.estimated_bytes, static_cast<double>(timeline.peak));
  }
  judged.result = SimulateShort(fitted.step, task, *models, judged.plan, sim);
  judged.simulated_microbatches = fitted.step.microbatches;
  SetHost(task, judged);
  judged.memory_limit = MemoryLimit(task, judged.result.worst_device);
  judged.fits = judged.fits_host() && judged.reserved() <= judged.memory_limit;
  for (const DeviceResult& device : judged.result.devices) {
    if (device.device == judged.result.worst_device) judged.memory = device.memory;
  }
  return judged;
}

std::vector<double> CheckWholeStep(const SearchTask& task, JudgedPlan& judged) {
  // Fragmentation of the allocator hardly grows by more than 2 % from round to round.
  constexpr double kNear = 0.98;
  if (!judged.fits || judged.simulated_microbatches == judged.plan.microbatches) return {};
  if (static_cast<double>(judged.reserved()) < kNear * static_cast<double>(judged.memory_limit))
    return {};
  ShortStep whole;
  whole.program = Lower(task.model, judged.plan);
  std::vector<double> reserved = ReservedOf(task, whole);
  for (double bytes : reserved) {
    judged.result.reserved_memory_bytes =
        std::max(judged.result.reserved_memory_bytes, static_cast<int64_t>(bytes));
  }
  judged.fits = judged.reserved() <= judged.memory_limit;
  return reserved;
}

}  // namespace heddle
