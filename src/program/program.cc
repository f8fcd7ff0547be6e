#include "program/program.h"

#include <algorithm>

#include "base/check.h"
#include "base/integers.h"

namespace heddle {
namespace {

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
  return LocalElements(stage.mesh, slot.sharding, position);
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
  return slot.kept[ToSize(PlaceAlong(stage.mesh, position, slot.sharding.split_axes()))];
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

ParameterGroupId TiedGroup::GroupOn(StageId stage) const {
  for (const auto& [holder, group] : holders) {
    if (holder == stage) return group;
  }
  HEDDLE_CHECK(false, "stage {} does not hold the tied parameter", stage);
  return {};
}

}  // namespace heddle
