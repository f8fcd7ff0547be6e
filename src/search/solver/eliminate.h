// Exact minimisation of additive problems.
//
//   std::optional<Solution> best = SolveFolded(problem);
//
// Both are exact and give the same minimum; which of several equally good choices they return may differ. Nothing is
// returned where a table would have more than kMaxTableEntries entries (factors.h), or where copies that are not spelled
// out are not in a run.
#pragma once

#include <optional>

#include "search/solver/problem.h"

namespace heddle {

// All variables eliminated in one order, whatever the graph looks like. Time grows with the number of variables.
std::optional<Solution> SolveWhole(const Problem& problem, const Weights& weights = {});

// As above, but a run of k equal copies of a chain (the same tables inside and from the copy before) is one block
// eliminated to a matrix over what it has at its two ends, to the power of k in (min, +). Up to two variables outside
// may have tables with every copy, the same ones: the matrix then is made for each of their choices. The first copy,
// and the last where others read more of it, are eliminated with the rest; so is all of a chain whose copies are not
// alike, or whose ends have too many states. Time grows with the logarithm of the copies, but for reading them once.
std::optional<Solution> SolveFolded(const Problem& problem, const Weights& weights = {});

}  // namespace heddle
