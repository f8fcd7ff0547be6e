// Rewrites after import, as an explicit list of passes.
//
// Clean-up always runs: transposes and reshapes in a row become one, or none. Fusion finds what
// exporters take apart and makes it one op again, because what is kept for backward depends on it:
//   Linear      x W^T + b                        from MatMul, Transpose, Add
//   Gelu, Silu  both forms of GELU, x sigmoid(x)
//   LayerNorm, RMSNorm                           from means, squares and roots
//   Attention   softmax(scale q k^T + bias) v    causal masks told from other biases, and the repeated
//                                                heads of grouped-query attention absorbed
// Layout comes last and changes no op's meaning: linear layers work on tokens as the model around them has
// them, flattened or not, and those that are cut up at once (q|k|v) say into which pieces.
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace heddle {

struct Pass {
  std::string_view name;
  Graph (*run)(Graph);
};

std::span<const Pass> CleanUpPasses();
std::span<const Pass> FusionPasses();
std::span<const Pass> LayoutPasses();

// Runs passes in order; the graph is verified after each.
Graph RunPasses(Graph graph, std::span<const Pass> passes);

}  // namespace heddle
