// Rewrites after import, as an explicit list of passes.
//
// Clean-up always runs: consecutive transposes and consecutive reshapes are merged or removed. Fusion finds patterns
// that exporters write as several ops and replaces each by one op, because what is kept for backward depends on it:
//   Linear      x W^T + b                        from MatMul, Transpose, Add
//   Gelu, Silu  both forms of GELU, x sigmoid(x)
//   LayerNorm, RMSNorm                           from means, squares and roots
//   Attention   softmax(scale q k^T + bias) v    causal masks are recognised among biases, and the repeated
//                                                heads of grouped-query attention are absorbed
// Layout passes run last and do not change the meaning of any op: linear layers work on tokens in the shape that the
// surrounding model uses, flattened or not, and linear layers whose result is split at once (q|k|v) get the sizes of
// the pieces.
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
