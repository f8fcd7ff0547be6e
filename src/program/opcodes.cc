#include "program/opcodes.h"

#include "program/opcode_parts.h"

namespace heddle {
namespace {

constexpr std::array<OpcodeDef, kOpcodeCount> kOpcodes = {{
    {.op = Opcode::kLoad,
     .name = "load",
     .target = TargetKind::kLocal,
     .stream = Stream::kCopy,
     .category = "local",
     .check = CheckLoad},
    {.op = Opcode::kRun,
     .name = "run",
     .target = TargetKind::kSegment,
     .stream = Stream::kCompute,
     .category = "forward",
     .words = RunWords,
     .check = CheckRun},
    {.op = Opcode::kReshard,
     .name = "reshard",
     .target = TargetKind::kLocal,
     .stream = Stream::kCommunication,
     .category = "collective",
     .words = ReshardWords,
     .fits = IsOfAReshard,
     .payload = ReshardPayload,
     .check = CheckReshard},
    {.op = Opcode::kSum,
     .name = "sum",
     .target = TargetKind::kLocal,
     .stream = Stream::kCompute,
     .category = "local",
     .check = CheckSum},
    {.op = Opcode::kAddGradient,
     .name = "add-gradient",
     .target = TargetKind::kLocal,
     .stream = Stream::kCompute,
     .category = "local",
     .check = CheckAddGradient},
    {.op = Opcode::kFactorGradient,
     .name = "factor-gradient",
     .target = TargetKind::kFactorGradient,
     .stream = Stream::kCompute,
     .category = "backward",
     .check = CheckFactorGradient},
    {.op = Opcode::kSend,
     .name = "send",
     .target = TargetKind::kTransfer,
     .stream = Stream::kCommunication,
     .category = "transfer",
     .fits = IsSentByItsStage,
     .check = CheckSend},
    {.op = Opcode::kRecv,
     .name = "recv",
     .target = TargetKind::kTransfer,
     .stream = Stream::kCommunication,
     .category = "transfer",
     .fits = IsReceivedByItsStage,
     .check = CheckRecv},
    {.op = Opcode::kReduceGradients,
     .name = "reduce-gradients",
     .target = TargetKind::kGroup,
     .stream = Stream::kCommunication,
     .category = "collective",
     .payload = ReducePayload,
     .check = CheckReduceGradients},
    {.op = Opcode::kReduceShards,
     .name = "reduce-shards",
     .target = TargetKind::kGroup,
     .stream = Stream::kCommunication,
     .category = "collective",
     .payload = ShardsPayload,
     .check = CheckReduceShards},
    {.op = Opcode::kSyncTied,
     .name = "sync-tied",
     .target = TargetKind::kTied,
     .stream = Stream::kCommunication,
     .category = "collective",
     .fits = IsHeldByItsStage,
     .payload = TiedPayload,
     .check = CheckSyncTied},
    {.op = Opcode::kReport,
     .name = "report",
     .target = TargetKind::kNone,
     .stream = Stream::kCommunication,
     .category = "collective",
     .payload = ReportPayload,
     .check = CheckReport},
    {.op = Opcode::kUpdate,
     .name = "update",
     .target = TargetKind::kGroup,
     .stream = Stream::kCompute,
     .category = "optimizer",
     .check = CheckUpdate},
    {.op = Opcode::kGatherWeights,
     .name = "gather-weights",
     .target = TargetKind::kGroup,
     .stream = Stream::kCommunication,
     .category = "collective",
     .payload = GatherPayload,
     .check = CheckGatherWeights},
    {.op = Opcode::kFetch,
     .name = "fetch",
     .target = TargetKind::kGroup,
     .stream = Stream::kCopy,
     .category = "host copy",
     .check = CheckFetch},
    {.op = Opcode::kEvict,
     .name = "evict",
     .target = TargetKind::kGroup,
     .stream = Stream::kCopyOut,
     .category = "host copy",
     .check = CheckEvict},
}};

// `check` is compared with null by a test: with UBSan, gcc 12 does not take addresses of functions for constants.
constexpr bool IsInOrder() {
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    if (kOpcodes[i].op != static_cast<Opcode>(i)) return false;
  }
  return true;
}
static_assert(IsInOrder(), "every opcode has an entry, at its place");

}  // namespace

std::span<const OpcodeDef> AllOpcodes() { return kOpcodes; }

const OpcodeDef& DefOf(Opcode op) { return kOpcodes[static_cast<size_t>(op)]; }

Stream StreamOf(const Program& program, const Instruction& instruction) {
  if (instruction.op != Opcode::kReshard) return DefOf(instruction.op).stream;
  const StageProgram& stage = program.stages[instruction.stage];
  const ReshardStep& step = stage.steps[stage.locals[instruction.local()].As<FromReshard>().step];
  return IsLocal(step.kind) ? Stream::kCompute : Stream::kCommunication;
}

}  // namespace heddle
