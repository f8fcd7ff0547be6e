// What recomputation saves.
#pragma once

#include "fold/fold.h"
#include "ops/analysis.h"

namespace heddle {

// What is kept when every folded block keeps only what crosses out of it and recomputes the rest: everything
// outside the chains, what crosses between blocks, and all of the one block at work, each storage once. Where
// that is more than without recomputation, it is everything.
KeptSet FindRecomputed(const Graph& graph, const Rules& rules, const GradientFlow& flow,
                       const Folding& folding);

}  // namespace heddle
