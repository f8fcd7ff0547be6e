// Exact minimisation of additive problems under a limit on memory.
//
//   LimitedSolution found = SolveLimited(problem, {.limit = 60e9});
//   if (!found.best) ...     // found.proven: nothing fits; otherwise the budget ended before anything was found
//
// 1. The dual (dual.h) gives a lower bound and two choices, one that fits and one that does not; mixtures of them
//    (repair.h) fit and come close.
// 2. Labels (labels.h) close the gap at once where they are not too many, which is the rule for chains of equal copies.
// 3. Otherwise the best is polished (repair.h), and branch and bound goes on, best bound first: the variable whose
//    bytes differ most between a node's two choices has its domain split there, and each part has its own dual.
// The bound holds whenever it is stopped. The same input gives the same result, unless max_seconds stopped it.
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct LimitOptions {
  Weights weights = {};                   // bytes is not looked at
  double limit = kForbidden;              // bytes, as Evaluate adds them up
  double gap = 1e-9;                      // relative: what is closer to the bound is proven
  int64_t max_nodes = 10000;              // the root is one
  int64_t max_labels = int64_t{1} << 20;  // 0: no labels
  double max_seconds = kForbidden;
};

struct LimitedSolution {
  std::optional<Solution> best;      // the objective is without the multiplier
  double lower_bound = -kForbidden;  // kForbidden where nothing fits
  bool proven = false;               // the best is within the gap of the bound, or nothing fits
  int64_t nodes = 0;                 // whose dual was looked at
  int64_t solves = 0;                // of additive problems as large as this one

  double gap() const;  // relative to the best; 0 where proven that nothing fits
};

// Nothing, unproven, where a table would be too large (eliminate.h).
LimitedSolution SolveLimited(const Problem& problem, const LimitOptions& options);

}  // namespace heddle
