#include "program/program.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

std::vector<int64_t> RanksOf(const StageProgram& stage, int64_t device, AxisMask axes) {
  std::vector<int64_t> ranks = AxisGroup(stage.mesh, IndexIn(stage.mesh, device), axes);
  for (int64_t& rank : ranks) rank = DeviceAt(stage.mesh, rank);
  return ranks;
}

// Replicas, the server first: what is reduced goes to the first of a group, what is broadcast comes from it.
std::vector<int64_t> ServedRanks(const StageProgram& stage, int64_t device,
                                 const ParameterGroup& group) {
  std::vector<int64_t> ranks = RanksOf(stage, device, group.reduce_axes);
  auto server = ranks.begin() + static_cast<std::ptrdiff_t>(group.server);
  std::rotate(ranks.begin(), server, server + 1);
  return ranks;
}

// So that zero_axes divide it.
int64_t Padded(const StageProgram& stage, const ParameterGroup& group, int64_t elements) {
  int64_t ranks = GroupSize(stage.mesh, group.zero_axes);
  return (elements + ranks - 1) / ranks * ranks;
}

}  // namespace

const DeviceProgram& Program::RunOf(int64_t device) const {
  for (const DeviceProgram& run : runs) {
    if (std::binary_search(run.devices.begin(), run.devices.end(), device)) return run;
  }
  HEDDLE_CHECK(false, "device {} has no program", device);
  return runs.front();
}

int64_t Program::device_count() const {
  int64_t count = 0;
  for (const DeviceProgram& run : runs) count = std::max(count, run.devices.back() + 1);
  return count;
}

Position PositionIn(const StageProgram& stage, int64_t device) {
  return PositionOf(stage.mesh, IndexIn(stage.mesh, device));
}

int64_t PlaceAlong(const Mesh& mesh, const Position& position, AxisMask axes) {
  int64_t index = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (Contains(axes, a)) index = index * mesh.axes[a].size + position[a];
  }
  return index;
}

bool Updates(const StageProgram& stage, const ParameterGroup& group, const Position& position) {
  return group.server < 0 || PlaceAlong(stage.mesh, position, group.reduce_axes) == group.server;
}

Strategy FactorStrategy(const StageProgram& stage, const FactorGradient& gradient) {
  Strategy strategy = stage.strategies[gradient.node.index()];
  for (size_t a = 0; a < strategy.size(); ++a) {
    if (Contains(gradient.axes, a)) strategy[a] = kReplicate;
  }
  return strategy;
}

const FactorGradient* FindFactorGradient(const StageProgram& stage, NodeId node, size_t operand) {
  for (const FactorGradient& at : stage.factor_gradients) {
    if (at.node == node && at.operand == operand) return &at;
  }
  return nullptr;
}

GradientFlow SegmentFlow(const Program& program, const StageProgram& stage) {
  GradientFlow flow = program.model.flow;
  for (const FactorGradient& at : stage.factor_gradients) {
    flow.needed[program.model.graph.node(at.node).operands[at.operand].index()] = false;
  }
  return flow;
}

int64_t SlotElements(const StageProgram& stage, const ParameterSlot& slot,
                     const Position& position) {
  return ElementCount(LocalShape(stage.mesh, slot.sharding, position));
}

int64_t FlatElements(const StageProgram& stage, const ParameterGroup& group,
                     const Position& position) {
  int64_t elements = 0;
  for (const ParameterSlot& slot : group.slots) elements += SlotElements(stage, slot, position);
  return Padded(stage, group, elements);
}

int64_t KeptElements(const StageProgram& stage, const ParameterSlot& slot,
                     const Position& position) {
  if (slot.kept.empty()) return SlotElements(stage, slot, position);
  return slot
      .kept[static_cast<size_t>(PlaceAlong(stage.mesh, position, slot.sharding.split_axes()))];
}

int64_t KeptElements(const StageProgram& stage, const ParameterGroup& group,
                     const Position& position) {
  int64_t elements = 0;
  for (const ParameterSlot& slot : group.slots) elements += KeptElements(stage, slot, position);
  return Padded(stage, group, elements);
}

bool Spills(const Program& program) {
  for (const StageProgram& stage : program.stages) {
    for (const ParameterGroup& group : stage.groups) {
      if (group.spilled) return true;
    }
  }
  return false;
}

bool IsPruned(const ParameterGroup& group) {
  return std::any_of(group.slots.begin(), group.slots.end(),
                     [](const ParameterSlot& slot) { return !slot.kept.empty(); });
}

int64_t IndexBytes(const StageProgram& stage, const ParameterGroup& group,
                   const Position& position) {
  int64_t bytes = 0;
  for (const ParameterSlot& slot : group.slots) {
    if (slot.kept.empty()) continue;
    bool wide = SlotElements(stage, slot, position) > INT32_MAX;
    bytes += KeptElements(stage, slot, position) * SizeOf(wide ? DType::kI64 : DType::kI32);
  }
  return bytes;
}

int TiedGroup::GroupOn(int stage) const {
  for (const auto& [holder, group] : holders) {
    if (holder == stage) return group;
  }
  HEDDLE_CHECK(false, "stage {} does not hold the tied parameter", stage);
  return -1;
}

namespace {

Payload PayloadOf(const Program& program, const Instruction& instruction, int64_t device,
                  bool listed) {
  auto ranks = [&](const StageProgram& on, AxisMask axes) {
    return listed ? RanksOf(on, device, axes) : std::vector<int64_t>();
  };
  auto served = [&](const StageProgram& on, const ParameterGroup& group) {
    return listed ? ServedRanks(on, device, group) : std::vector<int64_t>();
  };
  if (instruction.op == Opcode::kReport) {
    Payload payload;
    for (int64_t rank = 0; listed && rank < program.device_count(); ++rank) {
      payload.ranks.push_back(rank);
    }
    payload.bytes = 2 * SizeOf(DType::kF64);
    return payload;
  }
  const StageProgram& stage = program.stages[static_cast<size_t>(instruction.stage)];
  Position position = PositionIn(stage, device);
  size_t index = static_cast<size_t>(instruction.index);
  int64_t gradient_bytes = SizeOf(program.precision.gradients);
  switch (instruction.op) {
    case Opcode::kReshard: {
      const Local& local = stage.locals[index];
      const ReshardStep& step = stage.steps[static_cast<size_t>(local.source.step)];
      if (IsLocal(step.kind)) return {};
      return {ToCollective(step.kind), ranks(stage, step.axes),
              PayloadElements(stage.mesh, step, position) * SizeOf(local.dtype)};
    }
    case Opcode::kReduceGradients: {
      const ParameterGroup& group = stage.groups[index];
      int64_t bytes = KeptElements(stage, group, position) * gradient_bytes;
      if (group.server >= 0) return {CollectiveKind::kReduce, served(stage, group), bytes};
      // Scattered over the axes that split the state, the rest is reduced as a whole.
      if (group.zero == 0)
        return {CollectiveKind::kAllReduce, ranks(stage, group.reduce_axes), bytes};
      return {CollectiveKind::kReduceScatter, ranks(stage, group.zero_axes), bytes};
    }
    case Opcode::kReduceShards: {
      const ParameterGroup& group = stage.groups[index];
      AxisMask axes = group.reduce_axes & ~group.zero_axes;
      int64_t bytes = KeptElements(stage, group, position) /
                      GroupSize(stage.mesh, group.zero_axes) * gradient_bytes;
      return {CollectiveKind::kAllReduce, ranks(stage, axes), bytes};
    }
    case Opcode::kGatherWeights: {
      const ParameterGroup& group = stage.groups[index];
      if (group.server >= 0) {
        return {CollectiveKind::kBroadcast, served(stage, group),
                KeptElements(stage, group, position) * SizeOf(program.precision.compute)};
      }
      int64_t bytes = KeptElements(stage, group, position) /
                      GroupSize(stage.mesh, group.zero_axes) * SizeOf(program.precision.compute);
      return {CollectiveKind::kAllGather, ranks(stage, group.zero_axes), bytes};
    }
    case Opcode::kSyncTied: {
      // The devices at one place of every holder's mesh; a run that holds it twice adds the two up itself.
      Payload payload;
      const TiedGroup& tied = program.tied[index];
      for (const auto& [holder, held] : tied.holders) {
        int64_t rank =
            DeviceAt(program.stages[static_cast<size_t>(holder)].mesh, IndexIn(stage.mesh, device));
        if (std::find(payload.ranks.begin(), payload.ranks.end(), rank) == payload.ranks.end()) {
          payload.ranks.push_back(rank);
        }
      }
      std::sort(payload.ranks.begin(), payload.ranks.end());
      const ParameterGroup& group =
          stage.groups[static_cast<size_t>(tied.GroupOn(instruction.stage))];
      payload.bytes = KeptElements(stage, group, position) /
                      GroupSize(stage.mesh, group.zero_axes) * gradient_bytes;
      return payload;
    }
    default:
      return {};
  }
}

}  // namespace

Payload CollectiveOf(const Program& program, const Instruction& instruction, int64_t device) {
  return PayloadOf(program, instruction, device, true);
}

Payload KindAndBytesOf(const Program& program, const Instruction& instruction, int64_t device) {
  return PayloadOf(program, instruction, device, false);
}

std::vector<PeerMessage> MessagesOf(const Program& program, const Instruction& instruction,
                                    int64_t device) {
  const StageTransfer& transfer = program.transfers[static_cast<size_t>(instruction.index)];
  const StageProgram& from = program.stages[static_cast<size_t>(transfer.from_stage)];
  const StageProgram& to = program.stages[static_cast<size_t>(transfer.to_stage)];
  MeshTransfer moved{from.mesh, to.mesh,
                     from.locals[static_cast<size_t>(transfer.from_local)].sharding,
                     to.locals[static_cast<size_t>(transfer.to_local)].sharding};
  std::vector<PeerMessage> messages;
  if (instruction.op == Opcode::kSend) {
    for (Message& message : MessagesFrom(moved, IndexIn(from.mesh, device))) {
      messages.push_back({DeviceAt(to.mesh, message.to), std::move(message)});
    }
  } else {
    for (Message& message : MessagesTo(moved, IndexIn(to.mesh, device))) {
      messages.push_back({DeviceAt(from.mesh, message.from), std::move(message)});
    }
  }
  return messages;
}

}  // namespace heddle
