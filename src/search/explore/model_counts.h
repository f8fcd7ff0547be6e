// What floors and estimates count in a model once: parameters by who reads them, and the bytes that cross a cut.
//
//   ModelCounts counts = CountModel(model, UnitsOf(model));
#pragma once

#include <vector>

#include "plan/model.h"
#include "plan/units.h"

namespace heddle {

struct ModelCounts {
  // Elements of parameters: all, the largest one, of the block that reads most, and of each block.
  double parameters = 0, largest_parameter = 0, largest_block = 0;
  std::vector<double> block_parameters;
  double outside_layers = 0;           // elements that blocks outside the layers read
  bool trains_outside_layers = false;  // whether some of these are trained
  double products = 0;            // elements of matrix products in layers, each read by one block
  double layers_with_own = 0;     // layers that have parameters which no other block reads
  double shared_with_layers = 0;  // elements that layers share with other blocks, counted per layer
  double tied_to_head = 0;        // trained elements that the head and an earlier unit read
  double tied_across_middle = 0;  // elements that blocks of both halves of the model read
  // Bytes of the whole batch that pass from a stage to the next: at a cut in the middle, and at the best cut.
  double crossing_bytes = 0, least_crossing_bytes = 0;
};

ModelCounts CountModel(const Model& model, const ModelUnits& units);

}  // namespace heddle
