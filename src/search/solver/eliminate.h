// Exact minimisation of additive problems.
//
//   std::optional<Solution> best = SolveFolded(problem);
//
// Both functions give the same minimum, but may return different ones of several optimal choices.
// They return nothing where a table would have more than kMaxTableEntries entries (factors.h), or
// where left-out copies are not in a run.
#pragma once

#include <optional>

#include "search/solver/problem.h"

namespace heddle {

// Eliminates all variables in one order, for any graph. Time grows with the number of variables.
std::optional<Solution> SolveWhole(const Problem& problem, const Weights& weights = {});

// Like SolveWhole, but a run of k equal copies of a chain (equal tables inside a copy and from the
// copy before) is eliminated to one matrix over the states at its two ends, which is raised to the
// k-th power in (min, +). Up to two variables outside may have tables with every copy, the same for
// all copies; there is a matrix for each of their choices. The first copy, and the last one where
// others read more of it, are eliminated with the rest. So are chains whose copies differ or whose
// ends have too many states. Apart from reading the copies, time grows with the logarithm of their
// number.
std::optional<Solution> SolveFolded(const Problem& problem, const Weights& weights = {});

}  // namespace heddle
