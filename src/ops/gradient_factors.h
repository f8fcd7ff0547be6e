// Gradients of weights that are sums over the samples of products: of the gradient of the node's result and, mostly,
// another operand. Replicas that have these *factors* of the whole batch can compute such a gradient whole, each for
// itself, in place of reducing it.
//
//   Linear  y = x w + b     dw = sum x_i^T dy_i    factors x and dy          db = sum dy_i    dy alone
//   Gather  y = w[ids]      dw: rows dy_i added up at ids_i                  ids and dy
//
// Ops declare them among their traits (traits.h); every one has a kernel in runtime/kernels/factors.cc.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace heddle {

struct GradientFactors {
  size_t operand = 0;  // the weight
  // Whose values its gradient follows from, with the gradient of the result.
  std::vector<size_t> operands = {};
  // Nodes of the op that have them. Null: all.
  bool (*holds)(const Node& node, size_t operand) = nullptr;
};

// Of this operand of a node; null where its gradient has none.
const GradientFactors* FindGradientFactors(const Node& node, size_t operand);

}  // namespace heddle
