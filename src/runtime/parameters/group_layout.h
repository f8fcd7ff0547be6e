// Where the parameters of a group lie on one device: how the group is split.
//
// The parameters of a group (program.h: ParameterGroup) lie one after the other in flat tensors of two lengths:
//
//   weights          as nodes read them, dense: `flat_elements`
//   gradients and    only the elements that are kept of pruned parameters: `kept_elements`. Without pruning both
//   optimizer state  lengths are equal
//
// With ZeRO the second kind is split into equal chunks, one per device along the axes of ZeRO. Where one device (the
// server) updates for all, its chunk is everything and that of the others is empty.
//
//   GroupLayout layout = LayoutOf(program, stage, group, device);
//   layout.slots[0].offset                    // of the first parameter, in gradients and optimizer state
//
// A plain value without tensors. O(slots) to make.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

// One parameter of a group. All positions are in elements.
struct SlotLayout {
  std::string name;
  Shape shape;                       // of the whole parameter
  Tile tile;                         // of it, what this device holds
  Shape local;                       // the shape of that tile
  int64_t offset = 0, elements = 0;  // in gradients and optimizer state
  int64_t first = 0, weights = 0;    // in the weights
  bool counts = true;   // in the norm of gradients: no other device answers for the same elements
  bool packed = false;  // only some of its weights are kept
  bool operator==(const SlotLayout&) const = default;
};

struct GroupLayout {
  std::vector<SlotLayout> slots;
  int64_t flat_elements = 0;
  int64_t kept_elements = 0;
  Block chunk;          // of gradients and optimizer state, what this device updates
  bool pruned = false;  // some parameter is: weights and optimizer state are then different tensors

  // Of a slot's gradient and state, what lies in this device's chunk, counted from the beginning of the slot. The
  // block is empty or has a negative size where the chunk lies elsewhere.
  Block InChunk(const SlotLayout& slot) const;
  // Where a flat tensor begins that is either the whole of the gradients or this device's chunk of them.
  int64_t StartOf(int64_t elements) const { return elements == kept_elements ? 0 : chunk.begin; }
  bool operator==(const GroupLayout&) const = default;
};

// The device must be in the mesh of the stage.
GroupLayout LayoutOf(const Program& program, StageId stage, ParameterGroupId group, int64_t device);

// Does a device at this position add a gradient that is partial over some axes to that of its group? Over the other
// axes that the group is reduced over all devices have the same gradient: the first one adds it.
bool AddsGradient(const ParameterGroup& group, AxisMask partial_axes, const Position& position);

}  // namespace heddle
