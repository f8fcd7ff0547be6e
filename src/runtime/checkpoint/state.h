// The state that training resumes from: weights and the optimizer's moments, in parts as devices hold them.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/writer.h"
#include "plan/exchange.h"

namespace heddle {

// A range of the elements of a tile of a parameter, in fp32. Of all devices that hold these elements, exactly one has
// the part.
struct StatePart {
  std::string name;
  Shape shape;  // of the whole parameter
  Tile tile;
  Block elements;    // of the tile's elements, in their order
  at::Tensor index;  // of a pruned parameter: the elements that are kept; undefined: all
  std::array<at::Tensor, 3> values;  // by StateKind, flat; undefined: the optimizer has none
};

// What one device resumes from.
struct TrainState {
  std::vector<StatePart> parts;
  // The same on all devices: "updates" of the optimizer, and "loss_scale" where there is one.
  Json numbers;
};

// Copies parts to host memory, for CheckpointWriter. Reuses the memory that `saved` has.
void CopyToHost(const std::vector<StatePart>& parts, std::vector<SavedPart>& saved);

}  // namespace heddle
