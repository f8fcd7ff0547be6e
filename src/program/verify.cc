#include "program/verify.h"

#include <fmt/format.h>

#include "program/text.h"
#include "program/verify_parts.h"

namespace heddle {

bool Findings::full() const { return lines_.size() >= kMaxFindings; }

void Findings::Add(const Program& program, size_t r, size_t i, const std::string& what) {
  const DeviceProgram& run = program.runs[r];
  Add(fmt::format("devices {}, instruction {} ({}): {}", DevicesText(run.devices, "-"), i,
                  InstructionName(program, run.instructions[i]), what));
}

bool IsPersistent(const Program& program, const Buffer& buffer) {
  if (buffer.kind == BufferKind::kWeights || buffer.kind == BufferKind::kHostOptimizer ||
      buffer.kind == BufferKind::kHostWeights)
    return true;
  const StageProgram& stage = program.stages[buffer.stage];
  if (buffer.kind == BufferKind::kOptimizer) {
    return !stage.groups[buffer.group()].offloaded;
  }
  if (buffer.kind != BufferKind::kLocal) return false;
  return stage.locals[buffer.local()].Is<FromConstant>();
}

Buffer FinalGradients(const Program& program, StageId s, ParameterGroupId g) {
  const StageProgram& stage = program.stages[s];
  const ParameterGroup& group = stage.groups[g];
  if (GroupSize(stage.mesh, group.reduce_axes) == 1)
    return {BufferKind::kWeightGradients, s, g, -1, 0};
  bool rest =
      SplitsState(group.zero) && GroupSize(stage.mesh, group.reduce_axes & ~group.zero_axes) > 1;
  return {BufferKind::kReduced, s, g, -1, rest ? 1 : 0};
}

std::vector<std::string> Verify(const Program& program) {
  Findings findings;
  CheckIndices(program, findings);
  if (!findings.empty()) return findings.Take();
  CheckLayouts(program, findings);
  CheckSegments(program, findings);
  CheckOperands(program, findings);
  CheckBuffers(program, findings);
  CheckOrder(program, findings);
  CheckTraining(program, findings);
  CheckTogether(program, findings);
  return findings.Take();
}

}  // namespace heddle
