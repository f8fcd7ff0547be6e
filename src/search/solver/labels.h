// Exact minimisation under a limit on bytes by labels: pairs of cost and bytes in place of single numbers.
//
// Elimination (factors.h) where a table's entry is all its (cost, bytes) that no other beats in both. Their number
// would explode, but for a multiplier m and a choice that is known: with Lagrangian w + m bytes, one pass up and one
// down the elimination tree give for every entry the least Lagrangian of all choices that agree with it, and
//
//   w(x) >= w(x) + m (bytes(x) - limit)   for every x that fits,
//
// so whatever cannot come below the known choice is dropped. Near the best multiplier (dual.h) that is nearly
// everything. Copies of a chain need no breaking of symmetry: i copies one way and k - i the other cost the same in
// any order, and one label stands for all of them; tables of equal copies are made once.
// Handler and Zang, 1980 (bounds of labels by a multiplier).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct LabelOptions {
  Weights weights = {};                   // bytes is not looked at
  double limit = 0;                       // finite
  double multiplier = 0;                  // cost per byte; any will do, but the best one drops most
  int64_t max_labels = int64_t{1} << 20;  // of one call
  int64_t max_entries = int64_t{1} << 26;  // of all tables that are made
  std::function<bool()> stop = {};
};

struct LabelResult {
  bool finished =
      false;  // neither stopped nor too large. Without `best` nothing that fits costs less
  std::optional<Solution> best;  // the minimum
};

// The pass up is done once; calls with a growing `below` raise a lower bound step by step until the minimum is found,
// at little more than the cost of the last.
class LabelSolver {
 public:
  LabelSolver(const Problem& problem, LabelOptions options);
  ~LabelSolver();

  // The minimum of what fits, if it costs less than this. Time grows with the labels that are made.
  LabelResult Below(double below, int64_t max_labels);

 private:
  class Tree;
  std::unique_ptr<Tree> tree_;
};

}  // namespace heddle
