#include "sim/memory.h"

#include <algorithm>

#include "program/text.h"
#include "sim/alike_stages.h"

namespace heddle {
namespace {

// Chunks that are packed before a step, and unpacked after it, on the device.
int64_t PackedBytes(const StageProgram& stage, const Local& local, const Position& position) {
  const ReshardStep& step = stage.steps[local.As<FromReshard>().step];
  if (IsLocal(step.kind) || step.kind == StepKind::kAllReduce) return 0;
  int64_t packed = ElementCount(ChunkOf(stage.mesh, step, position)) *
                   GroupSize(stage.mesh, step.axes) * SizeOf(local.dtype);
  return step.kind == StepKind::kAllToAll ? 2 * packed : packed;
}

bool IsFirst(const Position& position, AxisMask axes) {
  for (size_t a = 0; a < position.size(); ++a) {
    if (Contains(axes, a) && position[a] != 0) return false;
  }
  return true;
}

StageMemory::Group GroupOf(const Program& program, StageId s, ParameterGroupId g, int64_t device) {
  const StageProgram& stage = program.stages[s];
  const ParameterGroup& group = stage.groups[g];
  auto bytes = [&](BufferKind kind) { return BufferBytes(program, {kind, s, g, -1, 0}, device); };
  StageMemory::Group memory;
  memory.weights = bytes(BufferKind::kWeights);
  memory.gathered = bytes(BufferKind::kGathered);
  memory.gradients = bytes(BufferKind::kWeightGradients);
  memory.reduced = bytes(BufferKind::kReduced);
  memory.optimizer = bytes(BufferKind::kOptimizer);
  int64_t ranks = GroupSize(stage.mesh, group.zero_axes);
  Position position = PositionIn(stage, device);
  int64_t whole = KeptElements(stage, group, position);
  bool updates = Updates(stage, group, position);
  // Without ZeRO the flat copy becomes what is reduced, but for a server's; with it the chunk is another tensor.
  if (group.zero > 0 || !updates) memory.flat = whole * SizeOf(program.precision.gradients);
  if (group.zero == 1 || group.zero == 2)
    memory.chunk = whole / ranks * SizeOf(program.precision.compute);
  if (updates && program.precision.moments_kept > 0)
    memory.update = whole / ranks * SizeOf(program.precision.moments);
  if (IsPruned(group)) {  // weights that are kept, on their way to where they belong
    int64_t kept = whole * SizeOf(program.precision.compute);
    if (group.zero > 0 || group.server >= 0) memory.chunk += kept;
    if (group.zero == 0) memory.update += kept;
  }
  return memory;
}

}  // namespace

MemoryModel::MemoryModel(const Program& program, MemoryHabits habits)
    : program_(program), habits_(habits) {
  for (const DeviceProgram& run : program.runs) {
    for (const Instruction& instruction : run.instructions) {
      if (instruction.op != Opcode::kRun || instruction.half == Half::kF) continue;
      split_ = instruction.half != Half::kBW;
      // All of a program's main segments are split alike.
      if (instruction.microbatch >= 0) return;
    }
  }
}

StageId MemoryModel::FirstAlike(StageId stage) const {
  if (first_alike_.empty()) first_alike_.resize(program_.stages.size());
  StageId& first = first_alike_[stage];
  if (first.valid()) return first;
  const StageProgram& of = program_.stages[stage];
  for (StageId other : unlike_stages_) {
    if (AreAlike(program_, program_.stages[other], of)) return first = other;
  }
  unlike_stages_.push_back(stage);
  return first = stage;
}

const StageMemory& MemoryModel::Of(StageId stage, int64_t device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  Position position = PositionIn(program_.stages[stage], device);
  auto [found, fresh] = known_.try_emplace({FirstAlike(stage), std::move(position)});
  if (fresh) found->second = Make(stage, device);
  return found->second;
}

StageMemory MemoryModel::Make(StageId s, int64_t device) const {
  const StageProgram& stage = program_.stages[s];
  Position position = PositionIn(stage, device);
  StageMemory memory;
  for (LocalId l : stage.locals.ids()) {
    const Local& local = stage.locals[l];
    Buffer buffer{BufferKind::kLocal, s, l, -1, 0};
    memory.locals.push_back(BufferBytes(program_, buffer, device));
    bool step = local.Is<FromReshard>();
    memory.reshards.push_back(step ? PackedBytes(stage, local, position) : 0);
    const ReshardStep* taken = step ? &stage.steps[local.As<FromReshard>().step] : nullptr;
    memory.same.push_back(step && taken->kind == StepKind::kMask && IsFirst(position, taken->axes));
  }
  for (ParameterGroupId g : stage.groups.ids())
    memory.groups.push_back(GroupOf(program_, s, g, device));
  memory.segments = MemoryOfSegments(program_, stage, position, split_, habits_);
  return memory;
}

int64_t MemoryModel::MessageBytes(const Instruction& instruction, int64_t device) const {
  const StageTransfer& transfer = program_.transfers[instruction.transfer()];
  bool sends = instruction.op == Opcode::kSend;
  LocalId local = sends ? transfer.from_local : transfer.to_local;
  const StageProgram& from = program_.stages[transfer.from_stage];
  const StageProgram& to = program_.stages[transfer.to_stage];
  const StageProgram& here = sends ? from : to;
  End end{{{.axes = from.mesh.axes},
           {.axes = to.mesh.axes},
           from.locals[transfer.from_local].sharding,
           to.locals[transfer.to_local].sharding},
          sends,
          IndexIn(here.mesh, device),
          SizeOf(here.locals[local].dtype)};
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [known, bytes] : known_ends_) {
    if (known == end) return bytes;
  }
  int64_t bytes = CopiedBytes(end);
  known_ends_.push_back({std::move(end), bytes});
  return bytes;
}

int64_t MemoryModel::CopiedBytes(const End& end) const {
  const MeshTransfer& transfer = end.transfer;
  const Mesh& mesh = end.sends ? transfer.from_mesh : transfer.to_mesh;
  const Sharding& sharding = end.sends ? transfer.from : transfer.to;
  int64_t whole = LocalElements(mesh, sharding, PositionOf(mesh, end.index)) * end.element_bytes;
  int64_t copied = 0;
  for (const Message& message :
       end.sends ? MessagesFrom(transfer, end.index) : MessagesTo(transfer, end.index)) {
    int64_t bytes =
        ElementCount(ShapeOf(end.sends ? message.give : message.get)) * end.element_bytes;
    // A message of the whole is the buffer itself.
    if (bytes != whole) copied += bytes;
  }
  return copied;
}

}  // namespace heddle
