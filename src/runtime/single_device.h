// A model on one device: the reference whose numbers every plan must reproduce.
//
//   SingleDevice model(graph, {.seed = 1});
//   StepResult step = model.Run(batch, /*step=*/0);     forward and backward
//   optimizer.Step(model.parameters(), step.gradients);
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

// Inputs by name.
using Batch = std::map<std::string, at::Tensor>;

struct StepResult {
  double loss = 0;
  std::vector<at::Tensor> gradients;  // in the order of the parameters
};

class SingleDevice {
 public:
  struct Options {
    uint64_t seed = 0;    // of initial weights and of random ops
    bool seeded = false;  // this one and the next as in WeightOptions
    bool fill_constants = false;
  };

  // Weights are the graph's own, or seeded where it has none at all. Throws InputError where it has only some of them,
  // and where a constant has no data and `fill_constants` is not set.
  SingleDevice(const Graph& graph, Options options);

  // One forward and backward pass. Throws InputError where the batch lacks an input or has one of another type.
  StepResult Run(const Batch& batch, int64_t step);

  std::vector<at::Tensor>& parameters() { return parameters_; }
  const std::vector<std::string>& parameter_names() const { return names_; }

 private:
  at::Tensor Forward(const Batch& batch, int64_t step);

  const Graph& graph_;
  Options options_;
  Rules rules_;
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::vector<ValueId>> last_use_;  // per node, the values that no later node reads
  std::vector<at::Tensor> fixed_;               // per value: parameters and constants
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
};

}  // namespace heddle
