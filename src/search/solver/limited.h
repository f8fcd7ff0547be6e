// Exact minimisation of additive problems under a memory limit.
//
//   LimitedSolution found = SolveLimited(problem, {.limit = 60e9});
//   if (!found.best) ...     // found.proven: nothing fits; otherwise the budget ended before anything was found
//
// 1. The dual (dual.h) gives a lower bound and two choices, one that fits and one that does not. Mixtures of them
//    (repair.h) fit and are nearly optimal.
// 2. Labels (labels.h) close the gap if they are not too many, which is usual for chains of equal copies.
// 3. Otherwise the best choice is improved locally (repair.h), followed by best-first branch and bound: the domain of the
//    variable whose bytes differ most between a node's two choices is split, and each part has its own dual.
// The bound is valid whenever the search is stopped. Equal inputs give equal results unless max_seconds stopped it.
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct LimitOptions {
  Weights weights = {};                   // the weight of bytes is ignored
  double limit = kForbidden;              // bytes, summed as in Evaluate
  double gap = 1e-9;                      // relative gap below which the best is proven optimal
  int64_t max_nodes = 10000;              // including the root
  int64_t max_labels = int64_t{1} << 20;  // 0: no labels
  double max_seconds = kForbidden;
};

struct LimitedSolution {
  std::optional<Solution> best;      // the objective does not include the multiplier
  double lower_bound = -kForbidden;  // kForbidden where nothing fits
  bool proven = false;               // the best is within the gap of the bound, or nothing fits
  int64_t nodes = 0;                 // nodes whose dual was maximised
  int64_t solves = 0;                // additive problems of this size that were solved

  double gap() const;  // relative to the best; 0 where proven that nothing fits
};

// Unproven and without a solution where a table would be too large (eliminate.h).
LimitedSolution SolveLimited(const Problem& problem, const LimitOptions& options);

}  // namespace heddle
