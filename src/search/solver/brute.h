// The minimum of a tiny problem by enumeration, as a reference for tests of the other solvers.
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

constexpr int64_t kMaxBruteAssignments = int64_t{1} << 26;

// The product of the domain sizes, capped at kMaxBruteAssignments + 1.
int64_t Assignments(const Problem& problem);

// The first optimum in lexicographic order. Depth first; a prefix that costs as much as the best so
// far is pruned, so costs must not be negative. At most kMaxBruteAssignments assignments.
Solution Brute(const Problem& problem, const Weights& weights = {});

// The same under a limit on bytes, summed as in Evaluate. Nothing where no allowed choice fits.
std::optional<Solution> BruteLimited(const Problem& problem, const Weights& weights, double limit);

}  // namespace heddle
