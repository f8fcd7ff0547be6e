#include "program/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "program/opcode_parts.h"

namespace heddle {
namespace {

const Local& LocalOf(const Program& program, StageId stage, LocalId local) {
  return program.stages[stage].locals[local];
}

std::string ValueName(const Program& program, const Local& local) {
  const std::string& name = program.model.graph.value(local.value).name;
  return local.gradient ? "grad " + name : name;
}

// Numbers of segments and groups are a stage's own.
template <class Id>
std::string Numbered(const Program& program, std::string_view what, StageId stage, Id id) {
  if (program.stages.size() == 1) return fmt::format("{}{}", what, id);
  return fmt::format("{}{}.{}", what, stage, id);
}

std::string AtMicrobatch(int microbatch) {
  return microbatch < 0 ? "" : fmt::format(" mb{}", microbatch);
}

// What an instruction is about, in words; empty: nothing to name.
std::string TargetWords(const Program& program, const Instruction& at) {
  const StageProgram& stage = program.stages[at.stage];
  switch (DefOf(at.op).target) {
    case TargetKind::kNone:
      return "";
    case TargetKind::kSegment:
      return Numbered(program, "seg", at.stage, at.segment());
    case TargetKind::kLocal:
      return ValueName(program, stage.locals[at.local()]);
    case TargetKind::kTransfer: {
      const StageTransfer& transfer = program.transfers[at.transfer()];
      return ValueName(program, LocalOf(program, transfer.from_stage, transfer.from_local));
    }
    case TargetKind::kGroup:
      return Numbered(program, "group", at.stage, at.group());
    case TargetKind::kTied: {
      const auto& [holder, group] = program.tied[at.tied()].holders.front();
      ValueId parameter = program.stages[holder].groups[group].slots.front().parameter;
      return program.model.graph.value(parameter).name;
    }
    case TargetKind::kFactorGradient:
      return ValueName(program,
                       stage.locals[stage.factor_gradients[at.factor_gradient()].parameter]);
  }
  return "";
}

std::string NameWithoutMicrobatch(const Program& program, const Instruction& at) {
  const OpcodeDef& def = DefOf(at.op);
  if (def.words != nullptr) return def.words(program, at);
  std::string target = TargetWords(program, at);
  return target.empty() ? std::string(def.name) : fmt::format("{} {}", def.name, target);
}

int64_t GroupBytes(const Program& program, const Buffer& buffer, int64_t device) {
  const StageProgram& stage = program.stages[buffer.stage];
  const ParameterGroup& group = stage.groups[buffer.group()];
  const Precision& precision = program.precision;
  Position position = PositionIn(stage, device);
  int64_t whole = KeptElements(stage, group, position);
  int64_t weights = FlatElements(stage, group, position);
  int64_t shard =
      Updates(stage, group, position) ? whole / GroupSize(stage.mesh, group.zero_axes) : 0;
  switch (buffer.kind) {
    case BufferKind::kHostWeights:
      return whole * SizeOf(precision.compute) + IndexBytes(stage, group, position);
    case BufferKind::kWeights:
      return (SplitsWeights(group.zero) ? shard : weights) * SizeOf(precision.compute) +
             IndexBytes(stage, group, position);
    case BufferKind::kGathered:
      return weights * SizeOf(precision.compute) +
             (group.spilled ? IndexBytes(stage, group, position) : 0);
    case BufferKind::kReduced:
      return shard * SizeOf(precision.gradients);
    case BufferKind::kOptimizer:
    case BufferKind::kHostOptimizer: {
      // Of the same type the weights themselves are updated, unless they are among those that are pruned.
      bool apart = precision.master != precision.compute || (IsPruned(group) && group.zero != 3);
      int64_t master = apart ? SizeOf(precision.master) : 0;
      return shard * (precision.moments_kept * SizeOf(precision.moments) + master);
    }
    default:
      return whole * SizeOf(precision.gradients);
  }
}

// One line of ToText.
class Line {
 public:
  Line(const Program& program, const DeviceProgram& run, const Instruction& instruction,
       int64_t device)
      : program_(program), run_(run), at_(instruction), device_(device) {}

  std::string Text(size_t index) const {
    std::string text = fmt::format("{:>5} {:<13}  {}:{}", index, NameOf(at_.stream),
                                   InstructionName(program_, at_), What());
    if (!at_.reads.empty()) text += " reads " + Names(at_.reads);
    if (!at_.writes.empty()) text += " -> " + Made(at_.writes);
    if (!at_.adds.empty()) text += " += " + Made(at_.adds);
    if (!at_.waits.empty()) text += fmt::format("; waits {}", fmt::join(at_.waits, ","));
    if (!at_.frees.empty()) text += "; frees " + Names(at_.frees);
    return text + "\n";
  }

 private:
  // Nodes of a run; the group, or the peers, of what is communicated.
  std::string What() const {
    if (at_.op == Opcode::kRun) return " " + NodeNames() + ";";
    if (at_.op == Opcode::kSend || at_.op == Opcode::kRecv) {
      std::string peers;
      for (const PeerMessage& message : MessagesOf(program_, at_, device_)) {
        peers += fmt::format("{}{}", peers.empty() ? "" : ",", message.peer);
      }
      return fmt::format(" {} {{{}}} {};", at_.op == Opcode::kSend ? "to" : "from", peers, Moved());
    }
    Payload payload = CollectiveOf(program_, at_, device_);
    if (payload.ranks.empty()) return "";
    std::string_view kind = at_.op == Opcode::kReshard ? "" : Name(payload.kind);
    return fmt::format(" {}{}over {{{}}} {};", kind, kind.empty() ? "" : " ",
                       fmt::join(payload.ranks, ","), Moved());
  }

  std::string Moved() const { return FormatBytes(Bytes{PayloadBytes(program_, at_, device_)}); }

  std::string NodeNames() const {
    constexpr size_t kShown = 4;
    const Segment& segment = program_.stages[at_.stage].segments[at_.segment()];
    std::vector<std::string> ops;
    for (NodeId id : segment.nodes) {
      if (ops.size() < kShown) ops.push_back(program_.model.graph.node(id).op);
    }
    std::string text = fmt::format("{}", fmt::join(ops, ", "));
    if (segment.nodes.size() > kShown)
      text += fmt::format(" and {} more", segment.nodes.size() - kShown);
    return text;
  }

  const Buffer& buffer(BufferId id) const { return run_.buffers[id]; }

  std::string Names(const BufferIds& ids) const {
    std::vector<std::string> names;
    for (BufferId id : ids) {
      names.push_back(id.valid() ? BufferName(program_, buffer(id)) : "nothing");
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  std::string Made(const BufferIds& ids) const {
    std::vector<std::string> names;
    for (BufferId id : ids) {
      const Buffer& at = buffer(id);
      std::string text = BufferName(program_, at);
      if (at.kind == BufferKind::kLocal) {
        const Local& local = LocalOf(program_, at.stage, at.local());
        text += fmt::format(" {}{}", Name(local.dtype),
                            ToString(program_.stages[at.stage].mesh, local.sharding));
      }
      if (at.kind != BufferKind::kSaved) {
        text += " " + FormatBytes(Bytes{BufferBytes(program_, at, device_)});
      }
      names.push_back(std::move(text));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const Program& program_;
  const DeviceProgram& run_;
  const Instruction& at_;
  int64_t device_;
};

}  // namespace

std::string RunWords(const Program& program, const Instruction& instruction) {
  std::string segment = TargetWords(program, instruction);
  if (instruction.recompute) return "recompute " + segment;
  return fmt::format("{} {}", HalfName(instruction.half), segment);
}

std::string ReshardWords(const Program& program, const Instruction& instruction) {
  const StageProgram& stage = program.stages[instruction.stage];
  const ReshardStep& step = stage.steps[stage.locals[instruction.local()].As<FromReshard>().step];
  return fmt::format("{} {}", Name(step.kind), TargetWords(program, instruction));
}

std::string InstructionName(const Program& program, const Instruction& instruction) {
  return NameWithoutMicrobatch(program, instruction) + AtMicrobatch(instruction.microbatch);
}

std::string BufferName(const Program& program, const Buffer& buffer) {
  std::string at = AtMicrobatch(buffer.microbatch);
  auto of_group = [&](std::string_view what) {
    return fmt::format("{} {}{}", what, Numbered(program, "group", buffer.stage, buffer.group()),
                       at);
  };
  switch (buffer.kind) {
    case BufferKind::kLocal: {
      std::string name = ValueName(program, LocalOf(program, buffer.stage, buffer.local()));
      return name + at + (buffer.version > 0 ? " again" : "");
    }
    case BufferKind::kSaved:
      return "saved " + Numbered(program, "seg", buffer.stage, buffer.segment()) + at;
    case BufferKind::kWeights:
      return of_group("weights");
    case BufferKind::kGathered:
      return of_group("gathered") + fmt::format(" #{}", buffer.version);
    case BufferKind::kWeightGradients:
      return of_group("gradients");
    case BufferKind::kReduced:
      return of_group(buffer.version == 0 ? "reduced" : "wholly reduced");
    case BufferKind::kOptimizer:
      return of_group("optimizer");
    case BufferKind::kHostOptimizer:
      return of_group("optimizer on the host,");
    case BufferKind::kHostWeights:
      return of_group("weights on the host,");
    default:
      return "report";
  }
}

int64_t BufferBytes(const Program& program, const Buffer& buffer, int64_t device) {
  if (buffer.kind == BufferKind::kSaved) return 0;
  if (buffer.kind == BufferKind::kReport) return 2 * SizeOf(DType::kF64);
  if (buffer.kind != BufferKind::kLocal) return GroupBytes(program, buffer, device);
  const StageProgram& stage = program.stages[buffer.stage];
  const Local& local = LocalOf(program, buffer.stage, buffer.local());
  return LocalElements(stage.mesh, local.sharding, PositionIn(stage, device)) * SizeOf(local.dtype);
}

int64_t PayloadBytes(const Program& program, const Instruction& instruction, int64_t device) {
  bool sends = instruction.op == Opcode::kSend;
  if (!sends && instruction.op != Opcode::kRecv) {
    Payload payload = CollectiveOf(program, instruction, device);
    return payload.ranks.empty() ? 0 : payload.GivenBy(device);
  }
  const StageTransfer& transfer = program.transfers[instruction.transfer()];
  int64_t elements = 0;
  for (const PeerMessage& message : MessagesOf(program, instruction, device)) {
    elements += ElementCount(ShapeOf(sends ? message.message.give : message.message.get));
  }
  return elements * SizeOf(LocalOf(program, transfer.from_stage, transfer.from_local).dtype);
}

int64_t HostCopyBytes(const Program& program, const DeviceProgram& run,
                      const Instruction& instruction, int64_t device) {
  BufferId on_host = instruction.op == Opcode::kFetch ? instruction.reads[0] : instruction.adds[0];
  return BufferBytes(program, run.buffers[on_host], device);
}

std::string ToText(const Program& program, int64_t device) {
  const DeviceProgram& run = program.RunOf(device);
  std::string text = fmt::format("device {}: {} instructions, stages {}\n", device,
                                 run.instructions.size(), fmt::join(run.stages, ","));
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    text += Line(program, run, run.instructions[i], device).Text(i);
  }
  return text;
}

}  // namespace heddle
