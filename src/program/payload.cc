// What instructions hand to the transport.
#include <algorithm>

#include "program/opcode_parts.h"

namespace heddle {
namespace {

std::vector<int64_t> RanksOf(const StageProgram& stage, int64_t device, AxisMask axes) {
  std::vector<int64_t> ranks = AxisGroup(stage.mesh, IndexIn(stage.mesh, device), axes);
  for (int64_t& rank : ranks) rank = DeviceAt(stage.mesh, rank);
  return ranks;
}

// The replicas of a device with the server first: reductions go to the first of a group, broadcasts come from it.
std::vector<int64_t> ServedRanks(const StageProgram& stage, int64_t device,
                                 const ParameterGroup& group) {
  std::vector<int64_t> ranks = RanksOf(stage, device, group.reduce_axes);
  auto server = ranks.begin() + group.server;
  std::rotate(ranks.begin(), server, server + 1);
  return ranks;
}

// A group that reduces or gathers over some axes of its stage, as one of its devices sees it.
struct GroupAt {
  const StageProgram& stage;
  const ParameterGroup& group;
  int64_t kept;  // elements

  GroupAt(const Program& program, const Instruction& at, ParameterGroupId id, int64_t device)
      : stage(program.stages[at.stage]),
        group(stage.groups[id]),
        kept(KeptElements(stage, group, PositionIn(stage, device))) {}
  int64_t shard() const { return kept / GroupSize(stage.mesh, group.zero_axes); }
};

std::vector<int64_t> RanksIf(bool listed, const StageProgram& stage, int64_t device,
                             AxisMask axes) {
  return listed ? RanksOf(stage, device, axes) : std::vector<int64_t>();
}

std::vector<int64_t> ServedIf(bool listed, const GroupAt& at, int64_t device) {
  return listed ? ServedRanks(at.stage, device, at.group) : std::vector<int64_t>();
}

Payload PayloadOf(const Program& program, const Instruction& at, int64_t device, bool listed) {
  const OpcodeDef& def = DefOf(at.op);
  return def.payload == nullptr ? Payload{} : def.payload(program, at, device, listed);
}

}  // namespace

Payload ReshardPayload(const Program& program, const Instruction& at, int64_t device, bool listed) {
  const StageProgram& stage = program.stages[at.stage];
  const Local& local = stage.locals[at.local()];
  const ReshardStep& step = stage.steps[local.As<FromReshard>().step];
  if (IsLocal(step.kind)) return {};
  return {ToCollective(step.kind), RanksIf(listed, stage, device, step.axes),
          PayloadElements(stage.mesh, step, PositionIn(stage, device)) * SizeOf(local.dtype)};
}

Payload ReducePayload(const Program& program, const Instruction& at, int64_t device, bool listed) {
  GroupAt of(program, at, at.group(), device);
  int64_t bytes = of.kept * SizeOf(program.precision.gradients);
  if (of.group.server >= 0) return {CollectiveKind::kReduce, ServedIf(listed, of, device), bytes};
  // Scattered over the axes that split the state, the rest is reduced as a whole.
  bool scattered = SplitsState(of.group.zero);
  AxisMask axes = scattered ? of.group.zero_axes : of.group.reduce_axes;
  return {scattered ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
          RanksIf(listed, of.stage, device, axes), bytes};
}

Payload ShardsPayload(const Program& program, const Instruction& at, int64_t device, bool listed) {
  GroupAt of(program, at, at.group(), device);
  AxisMask axes = of.group.reduce_axes & ~of.group.zero_axes;
  return {CollectiveKind::kAllReduce, RanksIf(listed, of.stage, device, axes),
          of.shard() * SizeOf(program.precision.gradients)};
}

Payload GatherPayload(const Program& program, const Instruction& at, int64_t device, bool listed) {
  GroupAt of(program, at, at.group(), device);
  int64_t size = SizeOf(program.precision.compute);
  if (of.group.server >= 0)
    return {CollectiveKind::kBroadcast, ServedIf(listed, of, device), of.kept * size};
  return {CollectiveKind::kAllGather, RanksIf(listed, of.stage, device, of.group.zero_axes),
          of.shard() * size};
}

// The devices at one place of every holder's mesh; a run that holds it twice adds the two up itself.
Payload TiedPayload(const Program& program, const Instruction& at, int64_t device, bool) {
  const TiedGroup& tied = program.tied[at.tied()];
  GroupAt of(program, at, tied.GroupOn(at.stage), device);
  Payload payload;
  for (const auto& [holder, held] : tied.holders) {
    int64_t rank = DeviceAt(program.stages[holder].mesh, IndexIn(of.stage.mesh, device));
    if (std::find(payload.ranks.begin(), payload.ranks.end(), rank) == payload.ranks.end()) {
      payload.ranks.push_back(rank);
    }
  }
  std::sort(payload.ranks.begin(), payload.ranks.end());
  payload.bytes = of.shard() * SizeOf(program.precision.gradients);
  return payload;
}

Payload ReportPayload(const Program& program, const Instruction&, int64_t, bool listed) {
  Payload payload;
  for (int64_t rank = 0; listed && rank < program.device_count(); ++rank) {
    payload.ranks.push_back(rank);
  }
  payload.bytes = 2 * SizeOf(DType::kF64);
  return payload;
}

Payload CollectiveOf(const Program& program, const Instruction& instruction, int64_t device) {
  return PayloadOf(program, instruction, device, true);
}

Payload KindAndBytesOf(const Program& program, const Instruction& instruction, int64_t device) {
  return PayloadOf(program, instruction, device, false);
}

std::vector<PeerMessage> MessagesOf(const Program& program, const Instruction& instruction,
                                    int64_t device) {
  const StageTransfer& transfer = program.transfers[instruction.transfer()];
  const StageProgram& from = program.stages[transfer.from_stage];
  const StageProgram& to = program.stages[transfer.to_stage];
  MeshTransfer moved{from.mesh, to.mesh, from.locals[transfer.from_local].sharding,
                     to.locals[transfer.to_local].sharding};
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
