// Training on one device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/optimizer.h"

namespace heddle {

struct TrainOptions {
  std::string data;  // a safetensors file, or empty for synthetic data
  int64_t steps = 10;
  uint64_t seed = 0;
  bool seeded = false;          // see SingleDevice
  bool fill_constants = false;
  OptimizerOptions optimizer;
};

struct TrainStep {
  int64_t step = 0;
  double loss = 0;  // before the update
  double seconds = 0;
};

// Trains the graph's parameters and calls `on_step` after every step. Throws InputError for data that does
// not fit, RunError where the loss is not finite.
std::vector<TrainStep> TrainOnOneDevice(const Graph& graph, const TrainOptions& options,
                                        const std::function<void(const TrainStep&)>& on_step);

}  // namespace heddle
