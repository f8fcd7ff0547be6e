// What recomputation saves.
#pragma once

#include "fold/fold.h"
#include "ops/analysis.h"

namespace heddle {

// Bytes of activations kept when every folded block keeps only what crosses into it and recomputes the rest:
// everything outside the chains, what crosses between blocks, and all of the one block at work. Floats count
// with `float_bytes` each, or their own size where that is 0.
double RecomputedBytes(const Graph& graph, const std::vector<Rule>& rules, const GradientFlow& flow,
                       const Folding& folding, int64_t float_bytes = 0);

}  // namespace heddle
