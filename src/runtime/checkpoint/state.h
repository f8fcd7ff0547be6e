// What training goes on from: weights and the optimizer's moments, in parts as devices hold them.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/manifest.h"
#include "graph/tensor.h"
#include "plan/exchange.h"

namespace heddle {

// A range of the elements of a tile of a parameter, in fp32; on one device of all that hold it.
struct StatePart {
  std::string name;
  Shape shape;  // of the whole
  Tile tile;
  Block elements;                    // of the tile's, in its order
  at::Tensor index;                  // those that have values, from the first on; undefined: all
  std::array<at::Tensor, 3> values;  // by kind, flat; undefined: the optimizer has none
};

// What a device goes on from.
struct TrainState {
  std::vector<StatePart> parts;
  Json
      numbers;  // the same on all devices: "updates" of the optimizer, "loss_scale" where there is one
};

}  // namespace heddle
