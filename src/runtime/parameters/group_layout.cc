#include "runtime/parameters/group_layout.h"

#include <algorithm>

namespace heddle {
namespace {

// Does this device count the slot's gradient in the norm? One of all devices that have the same elements does.
bool CountsInNorm(const Program& program, StageId stage_id, const ParameterGroup& group,
                  const ParameterSlot& slot, const Position& position) {
  if (group.tied.valid() && program.tied[group.tied].holders.front().first != stage_id)
    return false;
  const Mesh& mesh = program.stages[stage_id].mesh;
  AxisMask all = AxisSet(mesh.axes.size()) - 1;
  AxisMask copies = all & ~slot.sharding.split_axes() & ~group.zero_axes;
  if (group.server >= 0) copies &= ~group.reduce_axes;
  return PlaceAlong(mesh, position, copies) == 0;
}

}  // namespace

Block GroupLayout::InChunk(const SlotLayout& slot) const {
  return {std::max(slot.offset, chunk.begin) - slot.offset,
          std::min(slot.offset + slot.elements, chunk.end) - slot.offset};
}

GroupLayout LayoutOf(const Program& program, StageId stage_id, ParameterGroupId group_id,
                     int64_t device) {
  const StageProgram& stage = program.stages[stage_id];
  const ParameterGroup& group = stage.groups[group_id];
  Position position = PositionIn(stage, device);
  GroupLayout layout;
  layout.flat_elements = FlatElements(stage, group, position);
  layout.kept_elements = KeptElements(stage, group, position);
  layout.pruned = IsPruned(group);
  // Where another device updates for all, this device's chunk is empty.
  int64_t chunk = Updates(stage, group, position)
                      ? layout.kept_elements / GroupSize(stage.mesh, group.zero_axes)
                      : 0;
  int64_t begin = chunk * PlaceAlong(stage.mesh, position, group.zero_axes);
  layout.chunk = {begin, begin + chunk};
  int64_t offset = 0, first = 0;
  for (const ParameterSlot& held : group.slots) {
    const Value& value = program.model.graph.value(held.parameter);
    SlotLayout slot;
    slot.name = value.name;
    slot.shape = value.type.shape;
    for (const ShardedDim& dim : held.sharding.dims)
      slot.tile.push_back(HeldRanges(stage.mesh, dim, position));
    slot.local = LocalShape(stage.mesh, held.sharding, position);
    slot.offset = offset;
    slot.elements = KeptElements(stage, held, position);
    slot.first = first;
    slot.weights = SlotElements(stage, held, position);
    slot.counts = CountsInNorm(program, stage_id, group, held, position);
    slot.packed = !held.kept.empty();
    offset += slot.elements;
    first += slot.weights;
    layout.slots.push_back(std::move(slot));
  }
  return layout;
}

bool AddsGradient(const ParameterGroup& group, AxisMask partial_axes, const Position& position) {
  AxisMask complete = group.reduce_axes & ~partial_axes;
  for (size_t a = 0; a < position.size(); ++a) {
    if (Contains(complete, a) && position[a] != 0) return false;
  }
  return true;
}

}  // namespace heddle
