// The minimum of a tiny problem by trying everything: what the other solvers are tested against.
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

constexpr int64_t kMaxBruteAssignments = int64_t{1} << 26;

// The product of the domains, at most one above kMaxBruteAssignments.
int64_t Assignments(const Problem& problem);

// The first of the best in lexicographic order. Depth first: a prefix that costs as much as the best so far is left,
// so costs must not be negative. At most kMaxBruteAssignments.
Solution Brute(const Problem& problem, const Weights& weights = {});

// The same with at most so many bytes in all, as Evaluate adds them up; nothing where none is allowed and fits.
std::optional<Solution> BruteLimited(const Problem& problem, const Weights& weights, double limit);

}  // namespace heddle
