// The weights and constants that training starts from: those of the model's file, or seeded ones. They depend only on
// names and positions, so that every plan starts from the same numbers.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

// Returns the whole of a parameter by name, in fp32, on the CPU. May be called from several threads.
using WeightSource = std::function<at::Tensor(const std::string& name)>;
// Returns the data of a constant.
using ConstantSource = std::function<at::Tensor(const Value& value)>;

struct WeightOptions {
  uint64_t seed = 0;
  bool seeded = false;  // seeded weights even where the graph has its own
  // Constants whose data the file does not hold become true, 0 or small seeded numbers. Without this such a model is
  // refused: training it would not give the model that was meant.
  bool fill_constants = false;
};

// The graph's own weights, or seeded ones where it has none at all. Throws InputError where it has only some of them.
// The graph outlives the result.
WeightSource MakeWeights(const Graph& graph, const Rules& rules, const WeightOptions& options);

// Throws InputError where a constant of the graph has no data and `fill_constants` is not set.
ConstantSource MakeConstants(const Graph& graph, const WeightOptions& options);

}  // namespace heddle
