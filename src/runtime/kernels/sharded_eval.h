// Executes ops and small graphs in shards exactly as rules say, in one process: the reference that the
// proofs compare with whole kernels. Nothing here knows any op.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "graph/graph.h"
#include "ops/rule.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

// The global coordinates, per dimension, of what a rank holds.
std::vector<std::vector<int64_t>> Coordinates(const Rule& rule, const Dims& dims,
                                              std::span<const Block> blocks);

// The part of a global tensor at these coordinates, and its inverse: adds a part into a global tensor.
at::Tensor Take(const at::Tensor& global, const std::vector<std::vector<int64_t>>& coordinates);
void AddInto(at::Tensor& global, const at::Tensor& part,
             const std::vector<std::vector<int64_t>>& coordinates);

// Results and the gradients of operands (undefined where there is none).
struct Evaluation {
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> gradients;
};

// The gradients of sum(results * result_gradients); undefined for operands that cannot have one.
std::vector<at::Tensor> Gradients(const Rule& rule, std::span<const at::Tensor> results,
                                  std::span<const at::Tensor> result_gradients,
                                  std::span<const at::Tensor> operands);

// One op on one device. `operands` are fresh leaves that require gradients where the rule has them.
Evaluation EvaluateWhole(std::string_view op, const Attributes& attributes, const Rule& rule,
                         std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients);

// A factor of the rule split over so many ranks.
struct SplitAxis {
  int factor;
  int64_t ranks;
};

// One op on a mesh with these axes, its shards recombined as the rule says.
Evaluation EvaluateSplit(std::string_view op, const Attributes& attributes, const Rule& rule,
                         std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients,
                         std::span<const SplitAxis> axes);

// One op whose operands in `partial` are given as random partial sums on each of three ranks.
Evaluation EvaluatePartial(std::string_view op, const Attributes& attributes, const Rule& rule,
                           std::span<const at::Tensor> operands,
                           std::span<const at::Tensor> result_gradients,
                           const std::vector<int>& partial);

// A graph whose inputs are split over `ranks` along the given dimensions (-1: replicated), node by node:
// splits are followed through the rules, partial values are reduced where an op is not linear in them, and
// gradients follow the dual. Inputs and outputs correspond to `operands` and `results`.
Evaluation EvaluateGraph(const Graph& graph, std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients,
                         const std::vector<int>& split_dims, int64_t ranks);

}  // namespace heddle
