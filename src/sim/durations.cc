#include "sim/durations.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ops/moved_bytes.h"
#include "program/text.h"

namespace heddle {
namespace {

// Where the stack makes one kernel of neighbours that only move memory, what one hands to the next is not read again.
bool Join(const Graph& graph, const Node& node, const Rule& rule, std::span<const Block> blocks,
          const StackCosts& stack, std::vector<bool>& moves, NodeKernels& kernels) {
  if (stack.fused_loss && !rule.scratch.empty()) {
    double once = 2 * ScratchBytes(rule, blocks);  // written and read
    for (Kernel& kernel : kernels.forward) kernel.bytes -= once;
    for (Kernel& kernel : kernels.backward) kernel.bytes -= 2 * once;
  }
  if (!stack.fused_elementwise) return false;
  bool view = kernels.forward.empty();
  bool traffic = !view && kernels.forward[0].kind == KernelKind::kTraffic;
  bool joins = false;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    if (!moves[node.operands[o].index()]) continue;
    joins = true;
    if (!traffic) continue;
    double bytes = OperandBytes(graph, node, rule, blocks, o);
    for (std::vector<Kernel>* half : {&kernels.forward, &kernels.backward}) {
      for (Kernel& kernel : *half) kernel.bytes = std::max(0.0, kernel.bytes - bytes);
    }
  }
  for (ValueId result : node.results) moves[result.index()] = traffic || (view && joins);
  return joins && traffic;
}

class Pricer {
 public:
  Pricer(const Program& program, const Classes& classes, int device_class,
         const ComputeCost& compute, int inner_level)
      : program_(program),
        classes_(classes),
        class_(static_cast<size_t>(device_class)),
        device_(classes.devices[class_].device),
        compute_(compute),
        inner_level_(inner_level) {}

  TaskCost Of(const Instruction& at, const SimTask& task) {
    if (task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv) return {};
    TaskCost cost;
    if (task.kind == TaskKind::kCollective) {
      Communicate(at, task, cost);
      if (at.op == Opcode::kGatherWeights) cost.latency += Expand(at).total();
      return cost;
    }
    switch (at.op) {
      case Opcode::kRun:
        Run(at, cost);
        break;
      case Opcode::kFactorGradient:
        ComputeGradient(at, cost);
        break;
      case Opcode::kUpdate:
        if (ShardElements(at) == 0) break;  // its server does
        cost.terms = compute_.Update(ShardElements(at), program_.precision);
        if (GroupAt(at).zero == 0) cost.terms += Expand(at);
        break;
      case Opcode::kFetch:
      case Opcode::kEvict:
        cost.terms = compute_.HostCopy(
            static_cast<double>(HostCopyBytes(program_, program_.RunOf(device_), at, device_)));
        break;
      case Opcode::kReport:
        cost.terms = compute_.Report();
        break;
      case Opcode::kReshard:  // a slice or mask: read and written
      case Opcode::kLoad:
        cost.terms = compute_.Traffic(2 * LocalBytes(at.stage, at.local()));
        break;
      case Opcode::kSum:
        cost.terms = compute_.Traffic(static_cast<double>(at.reads.size() + 1) *
                                      LocalBytes(at.stage, at.local()));
        break;
      case Opcode::kAddGradient:
        cost.terms = compute_.Traffic(3 * LocalBytes(at.stage, at.local()));
        break;
      default:
        break;  // a collective of one
    }
    cost.seconds = cost.terms.total();
    return cost;
  }

 private:
  const StageProgram& stage(StageId s) const { return program_.stages[s]; }

  double LocalBytes(StageId s, LocalId id) const {
    const Local& local = stage(s).locals[id];
    Position position = PositionIn(stage(s), device_);
    return static_cast<double>(LocalElements(stage(s).mesh, local.sharding, position) *
                               SizeOf(local.dtype));
  }

  const ParameterGroup& GroupAt(const Instruction& at) const {
    return stage(at.stage).groups[at.group()];
  }

  // Weights that are kept, to where they belong: their index, and cache lines of the dense ones that are read and written.
  Terms Expand(const Instruction& at) const {
    if (!IsPruned(GroupAt(at))) return {};
    const StageProgram& on = stage(at.stage);
    Position position = PositionIn(on, device_);
    auto weight = static_cast<double>(SizeOf(program_.precision.compute));
    double dense = static_cast<double>(FlatElements(on, GroupAt(at), position)) * weight;
    double kept = static_cast<double>(KeptElements(on, GroupAt(at), position)) * weight;
    double index = static_cast<double>(IndexBytes(on, GroupAt(at), position));
    return compute_.Traffic(2 * dense + kept + index);
  }

  // What backward gives of pruned parameters is compressed at once: the dense gradient is read.
  void Compress(const StageProgram& on, const Segment& segment, TaskCost& cost) const {
    for (const SegmentInput& input : segment.inputs) {
      if (!input.trained) continue;
      const Local& local = on.locals[input.local];
      const FromParameter& stored = local.As<FromParameter>();
      const ParameterSlot& slot = on.groups[stored.group].slots[stored.slot];
      if (slot.kept.empty()) continue;
      Position position = PositionIn(on, device_);
      auto size = static_cast<double>(SizeOf(local.dtype));
      double dense = static_cast<double>(SlotElements(on, slot, position)) * size;
      double kept = static_cast<double>(KeptElements(on, slot, position));
      cost.terms += compute_.Traffic(dense + kept * (size + 4));
    }
  }

  double ShardElements(const Instruction& at) const {
    const StageProgram& on = stage(at.stage);
    const ParameterGroup& group = on.groups[at.group()];
    Position position = PositionIn(on, device_);
    if (!Updates(on, group, position)) return 0;
    return static_cast<double>(KeptElements(on, group, position) /
                               GroupSize(on.mesh, group.zero_axes));
  }

  void Communicate(const Instruction& at, const SimTask& task, TaskCost& cost) const {
    const GroupClass& group = classes_.groups[static_cast<size_t>(
        classes_.group_of[class_][static_cast<size_t>(task.channel)])];
    Payload payload = KindAndBytesOf(program_, at, device_);
    if (std::optional<double> measured = Measured(at, payload, group)) {
      cost.latency = *measured;
      return;
    }
    CollectiveCost chosen = Choose(payload.kind, group.pattern, static_cast<double>(payload.bytes),
                                   group.seconds_per_byte);
    cost.latency = chosen.latency;
    cost.volume = chosen.volume;
  }

  // On a machine that was calibrated: the transfer and the copies around it.
  std::optional<double> Measured(const Instruction& at, const Payload& payload,
                                 const GroupClass& group) const {
    double given = static_cast<double>(payload.bytes);
    std::optional<double> seconds = compute_.Transfer(Name(payload.kind), given);
    if (!seconds || group.level < inner_level_) return std::nullopt;
    if (at.op == Opcode::kReport) return *seconds;
    bool gathers = payload.kind == CollectiveKind::kAllGather;
    double members = static_cast<double>(group.pattern.members);
    double copied = gathers ? (1 + members) * given : given;
    return *seconds + compute_.Traffic(2 * copied).total();
  }

  // The first main segment of a stage, and the last whose backward runs, carry what the host does for a micro-batch.
  bool IsEnd(const StageProgram& on, const Instruction& at) const {
    auto counts = [&](const Segment& segment) {
      return segment.phase == Phase::kMain && (at.half == Half::kF || segment.has_backward);
    };
    auto end = on.segments.begin() + at.segment().value;
    return counts(*end) && std::none_of(on.segments.begin(), end, counts);
  }

  // Of all its halves.
  const std::vector<SegmentKernels>& KernelsFor(StageId s, SegmentId segment) {
    auto [at, fresh] = kernels_.try_emplace({s, segment});
    if (fresh) {
      at->second = KernelsOfSegment(program_, stage(s), stage(s).segments[segment],
                                    PositionIn(stage(s), device_), compute_.stack());
    }
    return at->second;
  }

  void Run(const Instruction& at, TaskCost& cost) {
    const StageProgram& on = stage(at.stage);
    const Segment& segment = on.segments[at.segment()];
    const std::vector<SegmentKernels>& nodes = KernelsFor(at.stage, at.segment());
    if (at.half != Half::kF) cost.terms += compute_.Autograd();
    for (const auto& [kernels, joins] : nodes) {
      if (kernels.forward.empty() && at.half != Half::kW) cost.terms += compute_.View();
      if (at.half == Half::kF) Add(kernels.forward, joins, cost);
      if (at.half == Half::kB || at.half == Half::kBW) Add(kernels.backward, joins, cost);
      if (at.half == Half::kW || at.half == Half::kBW) Add(kernels.weight, false, cost);
    }
    if (at.half == Half::kW || at.half == Half::kBW) {
      Compress(on, segment, cost);
      if (compute_.calibrated()) AddGradients(on, segment, cost);
    }
    if (IsEnd(on, at) && !at.recompute) cost.terms += compute_.Host();
  }

  void ComputeGradient(const Instruction& at, TaskCost& cost) const {
    const StageProgram& on = stage(at.stage);
    const FactorGradient& gradient = on.factor_gradients[at.factor_gradient()];
    const Node& node = program_.model.graph.node(gradient.node);
    const Rule& rule = program_.micro_rules[gradient.node.index()];
    std::vector<Block> blocks =
        LocalBlocks(on.mesh, rule, FactorStrategy(on, gradient), PositionIn(on, device_));
    Add({FactorKernel(program_.model.graph, program_.model.flow, node, rule, blocks,
                      program_.precision.gradients, gradient.operand)},
        false, cost);
    if (compute_.calibrated()) AddAgain(on, gradient.parameter, cost);
  }

  // What is not a kernel of a node: sums that are gradients of biases, and adding up gradients over micro-batches.
  void AddGradients(const StageProgram& on, const Segment& segment, TaskCost& cost) const {
    Position position = PositionIn(on, device_);
    GradientFlow flow = SegmentFlow(program_, on);
    for (NodeId id : segment.nodes) {
      const Node& node = program_.model.graph.node(id);
      size_t last = node.operands.size() - 1;
      if (!IsProductBias(node, last) || !flow.needed[node.operands[last].index()]) continue;
      const Rule& rule = program_.micro_rules[id.index()];
      std::vector<Block> blocks = LocalBlocks(on.mesh, rule, on.strategies[id.index()], position);
      Kernel sum;
      sum.op = kBiasGradient;
      sum.moved = sum.bytes = static_cast<double>(LocalElements(rule, rule.results[0], blocks) *
                                                  SizeOf(rule.result_dtypes[0]));
      cost.terms += compute_.Of(sum);
    }
    if (segment.phase != Phase::kMain) return;
    for (const SegmentInput& input : segment.inputs) {
      if (input.trained) AddAgain(on, input.local, cost);
    }
  }

  // The gradient of a parameter, in all micro-batches but the first, to what is there.
  void AddAgain(const StageProgram& on, LocalId parameter, TaskCost& cost) const {
    if (program_.microbatches == 1) return;
    double again = 1 - 1 / static_cast<double>(program_.microbatches);
    const Local& local = on.locals[parameter];
    double elements =
        static_cast<double>(LocalElements(on.mesh, local.sharding, PositionIn(on, device_)));
    Terms added = compute_.Traffic(3 * elements * static_cast<double>(SizeOf(DType::kF32)));
    for (double& seconds : added.seconds) seconds *= again;
    cost.terms += added;
  }

  void Add(const std::vector<Kernel>& kernels, bool joins, TaskCost& cost) const {
    for (const Kernel& kernel : kernels) {
      cost.terms += joins ? compute_.Joined(kernel) : compute_.Of(kernel);
      if (kernel.kind != KernelKind::kTraffic) cost.flops += kernel.flops;
    }
  }

  const Program& program_;
  const Classes& classes_;
  size_t class_;
  int64_t device_;
  const ComputeCost& compute_;
  int inner_level_;
  std::map<std::pair<StageId, SegmentId>, std::vector<SegmentKernels>> kernels_;
};

}  // namespace

std::vector<SegmentKernels> KernelsOfSegment(const Program& program, const StageProgram& stage,
                                             const Segment& segment, const Position& position,
                                             const StackCosts& stack) {
  const Model& model = program.model;
  GradientFlow flow = SegmentFlow(program, stage);
  std::vector<bool> moves(model.graph.values.size(), false);  // made here by moving memory
  std::vector<SegmentKernels> out;
  out.reserve(segment.nodes.size());
  for (NodeId id : segment.nodes) {
    size_t n = id.index();
    const Node& node = model.graph.nodes[n];
    const Rule& rule = program.micro_rules[n];
    std::vector<Block> blocks = LocalBlocks(stage.mesh, rule, stage.strategies[n], position);
    SegmentKernels at;
    at.kernels = KernelsOf(model.graph, flow, node, rule, blocks, program.precision.gradients);
    at.joins = Join(model.graph, node, rule, blocks, stack, moves, at.kernels);
    out.push_back(std::move(at));
  }
  return out;
}

std::vector<TaskCost> FindCosts(const Program& program, const DeviceProgram& run,
                                const TaskList& tasks, const Classes& classes, int device_class,
                                const ComputeCost& compute, int inner_level,
                                const std::vector<TaskCost>* alike) {
  Pricer pricer(program, classes, device_class, compute, inner_level);
  std::vector<TaskCost> costs;
  costs.reserve(tasks.keys.size());
  for (int i : tasks.keys) {
    const SimTask& task = tasks.tasks[static_cast<size_t>(i)];
    bool known = alike != nullptr && task.kind == TaskKind::kLocal;
    costs.push_back(known ? (*alike)[costs.size()]
                          : pricer.Of(run.instructions[static_cast<size_t>(i)], task));
  }
  return costs;
}

}  // namespace heddle
