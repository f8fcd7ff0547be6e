#include "report/node_costs.h"

#include <algorithm>
#include <map>

#include "cluster/topology.h"
#include "report/kept_bytes.h"

namespace heddle {
namespace {

double TotalOf(const ComputeCost& compute, const std::vector<Kernel>& kernels, bool joins) {
  double seconds = 0;
  for (const Kernel& kernel : kernels) {
    seconds += (joins ? compute.Joined(kernel) : compute.Of(kernel)).total();
  }
  return seconds;
}

void AddTraffic(std::vector<NodeTraffic>& all, const NodeTraffic& one) {
  auto like =
      std::find_if(all.begin(), all.end(), [&](const NodeTraffic& at) { return at.IsLike(one); });
  if (like == all.end()) {
    all.push_back(one);
    return;
  }
  double times = like->times + one.times;
  like->seconds = (like->seconds * like->times + one.seconds * one.times) / times;
  like->times = times;
}

// Assigns the collectives of a stage to the nodes that make them necessary (node_costs.h).
class TrafficOwners {
 public:
  TrafficOwners(const Program& program, const StageProgram& stage)
      : program_(program), stage_(stage) {
    for (const Segment& segment : stage.segments) {
      for (SegmentInputId i : segment.inputs.ids()) {
        const SegmentInput& input = segment.inputs[i];
        NodeId reader = ReaderOf(segment, i);
        readers_.emplace(input.local, reader);
        if (input.gradient.valid()) contributors_.emplace(input.gradient, reader);
      }
    }
    for (LocalId id : stage.locals.ids()) {
      const Local& local = stage.locals[id];
      if (local.Is<FromReshard>()) next_.emplace(local.As<FromReshard>().local, id);
    }
  }

  // The node to which the step that makes a Local is assigned; invalid if there is none.
  NodeId Of(LocalId id) const {
    const Local& local = stage_.locals[id];
    StepKind kind = local.Is<FromReshard>() ? stage_.steps[local.As<FromReshard>().step].kind
                                            : StepKind::kAllReduce;
    bool reduces = kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter;
    NodeId producer = program_.model.graph.value(local.value).producer;
    NodeId reader = local.gradient ? Contributor(id) : Reader(id);
    bool makes = reduces != local.gradient;
    NodeId first = makes ? producer : reader, second = makes ? reader : producer;
    return first.valid() ? first : second;
  }

 private:
  static NodeId ReaderOf(const Segment& segment, SegmentInputId input) {
    for (size_t n = 0; n < segment.nodes.size(); ++n) {
      for (const OperandRef& ref : segment.operands[n]) {
        if (ref.input == input) return segment.nodes[n];
      }
    }
    return {};
  }

  // Follows the chain of steps forward to the segment that reads its result.
  NodeId Reader(LocalId local) const {
    for (size_t steps = 0; steps <= stage_.steps.size(); ++steps) {
      if (auto found = readers_.find(local); found != readers_.end()) return found->second;
      auto next = next_.find(local);
      if (next == next_.end()) break;
      local = next->second;
    }
    return {};
  }

  // Follows the chain of steps back to the first segment that contributes a term of the gradient.
  NodeId Contributor(LocalId id) const {
    if (auto found = contributors_.find(id); found != contributors_.end()) return found->second;
    const Local& local = stage_.locals[id];
    if (local.Is<FromReshard>()) return Contributor(local.As<FromReshard>().local);
    if (!local.Is<FromSum>()) return {};
    for (LocalId term : local.As<FromSum>().terms) {
      if (NodeId found = Contributor(term); found.valid()) return found;
    }
    return {};
  }

  const Program& program_;
  const StageProgram& stage_;
  std::map<LocalId, NodeId> readers_, contributors_;
  std::multimap<LocalId, LocalId> next_;
};

class Reader {
 public:
  Reader(const Program& program, const Cluster& cluster, const Simulation& simulation,
         const SimOptions& options, size_t nodes)
      : program_(program), simulation_(simulation), options_(options), out_(nodes) {
    for (const StageProgram& stage : program.stages) {
      const DeviceType& type =
          cluster.type(TypeOf(cluster, DeviceId{static_cast<int>(stage.mesh.first)}));
      double slow = simulation.prepared.classes.devices[ClassOf(stage)].slow;
      compute_.emplace_back(type, ConstantsFor(type, options, program.device_count()),
                            options.stack, program.precision, slow);
      owners_.emplace_back(program, stage);
    }
  }

  std::vector<NodeCost> Run() {
    share_ = 1 / static_cast<double>(program_.microbatches);
    for (const DeviceProgram& run : program_.runs) {
      for (size_t i = 0; i < run.instructions.size(); ++i) Add(run, i);
    }
    for (const StageProgram& stage : program_.stages) {
      AddKept(program_, stage, [&](NodeId node, double bytes) { Cost(node).kept += bytes; });
    }
    return std::move(out_);
  }

 private:
  size_t ClassOf(const StageProgram& stage) const {
    return static_cast<size_t>(
        simulation_.prepared.classes.class_of[static_cast<size_t>(stage.mesh.first)]);
  }
  NodeCost& Cost(NodeId expanded) { return out_[program_.origin[expanded.index()].index()]; }

  void Add(const DeviceProgram& run, size_t i) {
    const Instruction& at = run.instructions[i];
    const StageProgram& stage = program_.stages[at.stage];
    if (at.op == Opcode::kRun) AddRun(at, stage);
    if (at.op == Opcode::kFactorGradient) {
      const TaskTimes& when = simulation_.timeline.times[ClassOf(stage)][i];
      Cost(stage.factor_gradients[at.factor_gradient()].node).backward +=
          share_ * (when.end - when.start);
    }
    if (at.op != Opcode::kReshard && at.op != Opcode::kSum) return;
    NodeId node = owners_[at.stage].Of(at.local());
    if (!node.valid()) return;
    size_t of = ClassOf(stage);
    const SimTask& task =
        simulation_.prepared
            .lists[static_cast<size_t>(simulation_.prepared.classes.devices[of].run)]
            .tasks[i];
    const TaskTimes& when = simulation_.timeline.times[of][i];
    if (task.kind == TaskKind::kLocal) {
      bool gradient = stage.locals[at.local()].gradient;
      double& seconds = gradient ? Cost(node).backward : Cost(node).forward;
      seconds += share_ * (when.end - when.start);
      return;
    }
    Payload payload = CollectiveOf(program_, at, stage.mesh.first);
    const Local& local = stage.locals[at.local()];
    NodeTraffic traffic;
    traffic.kind = payload.kind;
    traffic.axes = AxesText(stage.mesh, stage.steps[local.As<FromReshard>().step].axes);
    // Gathering a value again is part of backward.
    traffic.backward = local.gradient || run.buffers[at.writes[0]].version > 0;
    traffic.bytes = payload.bytes;
    traffic.seconds = when.end - when.start;
    traffic.times = share_;
    AddTraffic(Cost(node).traffic, traffic);
  }

  void AddRun(const Instruction& at, const StageProgram& stage) {
    const Segment& segment = stage.segments[at.segment()];
    const std::vector<HalfSeconds>& nodes = SecondsOf(at.stage, at.segment());
    for (size_t n = 0; n < nodes.size(); ++n) {
      NodeCost& cost = Cost(segment.nodes[n]);
      if (at.half == Half::kF)
        (at.recompute ? cost.recomputed : cost.forward) += share_ * nodes[n].forward;
      if (at.half != Half::kF && at.half != Half::kW) cost.backward += share_ * nodes[n].backward;
      if (at.half == Half::kW || at.half == Half::kBW) cost.backward += share_ * nodes[n].weight;
    }
  }

  struct HalfSeconds {
    double forward = 0, backward = 0, weight = 0;
  };

  const std::vector<HalfSeconds>& SecondsOf(StageId s, SegmentId segment) {
    auto [at, fresh] = seconds_.try_emplace({s, segment});
    if (!fresh) return at->second;
    const StageProgram& stage = program_.stages[s];
    const ComputeCost& compute = compute_[s];
    for (const auto& [kernels, joins] :
         KernelsOfSegment(program_, stage, stage.segments[segment],
                          PositionIn(stage, stage.mesh.first), options_.stack)) {
      at->second.push_back({TotalOf(compute, kernels.forward, joins),
                            TotalOf(compute, kernels.backward, joins),
                            TotalOf(compute, kernels.weight, false)});
    }
    return at->second;
  }

  const Program& program_;
  const Simulation& simulation_;
  const SimOptions& options_;
  std::vector<NodeCost> out_;
  IdVector<StageId, ComputeCost> compute_;
  IdVector<StageId, TrafficOwners> owners_;
  std::map<std::pair<StageId, SegmentId>, std::vector<HalfSeconds>> seconds_;
  double share_ = 1;
};

}  // namespace

bool NodeTraffic::IsLike(const NodeTraffic& other) const {
  return kind == other.kind && axes == other.axes && backward == other.backward &&
         bytes == other.bytes;
}

double NodeCost::traffic_seconds() const {
  double seconds = 0;
  for (const NodeTraffic& at : traffic) seconds += at.times * at.seconds;
  return seconds;
}

NodeCost& NodeCost::operator+=(const NodeCost& other) {
  forward += other.forward;
  backward += other.backward;
  recomputed += other.recomputed;
  kept += other.kept;
  for (const NodeTraffic& one : other.traffic) AddTraffic(traffic, one);
  return *this;
}

NodeCost& NodeCost::operator*=(double factor) {
  for (double* number : {&forward, &backward, &recomputed, &kept}) *number *= factor;
  for (NodeTraffic& at : traffic) at.times *= factor;
  return *this;
}

std::vector<NodeCost> CostsOfNodes(const Program& program, const Cluster& cluster,
                                   const Simulation& simulation, const SimOptions& options,
                                   size_t nodes) {
  return Reader(program, cluster, simulation, options, nodes).Run();
}

std::vector<StepTraffic> OtherTraffic(const Program& program, const Simulation& simulation,
                                      int64_t device) {
  const Prepared& in = simulation.prepared;
  size_t of = static_cast<size_t>(in.classes.class_of[static_cast<size_t>(device)]);
  const DeviceProgram& run = program.RunOf(device);
  const TaskList& list = in.lists[static_cast<size_t>(in.classes.devices[of].run)];
  std::map<std::pair<Opcode, std::string>, StepTraffic> all;
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    const Instruction& at = run.instructions[i];
    TaskKind kind = list.tasks[i].kind;
    if (kind == TaskKind::kLocal || kind == TaskKind::kRecv || at.op == Opcode::kReshard) continue;
    const StageProgram& stage = program.stages[at.stage];
    std::string axes;
    double bytes = 0;
    if (kind == TaskKind::kSend) {
      for (int m : in.classes.sends[of][at.transfer()]) {
        bytes += in.classes.messages[static_cast<size_t>(m)].bytes;
      }
    } else {
      bytes = static_cast<double>(CollectiveOf(program, at, device).bytes);
      bool group = at.op == Opcode::kReduceGradients || at.op == Opcode::kReduceShards ||
                   at.op == Opcode::kGatherWeights;
      if (group) {
        const ParameterGroup& on = stage.groups[at.group()];
        AxisMask shards = on.zero > 0 ? on.zero_axes : on.reduce_axes;
        AxisMask rest = on.reduce_axes & ~on.zero_axes;
        axes = AxesText(stage.mesh, at.op == Opcode::kReduceShards ? rest : shards);
      }
    }
    StepTraffic& sum = all[{at.op, axes}];
    sum.what = NameOf(at.op);
    sum.axes = axes;
    ++sum.count;
    sum.bytes += bytes;
    const TaskTimes& when = simulation.timeline.times[of][i];
    sum.seconds += when.end - when.start;
  }
  std::vector<StepTraffic> out;
  for (auto& [key, traffic] : all) out.push_back(std::move(traffic));
  return out;
}

std::string AxesText(const Mesh& mesh, AxisMask axes) {
  std::string text;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!Contains(axes, a)) continue;
    text += (text.empty() ? "" : " x ") + mesh.axes[a].name;
  }
  return text;
}

}  // namespace heddle
