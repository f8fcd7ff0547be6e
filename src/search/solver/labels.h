// Exact minimisation under a limit on bytes by label setting: each label is a pair (cost, bytes).
//
// This is variable elimination (factors.h) with tables whose entries are sets of Pareto-optimal
// (cost, bytes) labels. Their number would explode without bounds. Given a multiplier m, one pass
// up and one pass down the elimination tree (bucket_tree.h) give for every entry the least
// Lagrangian w + m bytes of all choices that agree with it, and
//
//   w(x) >= w(x) + m (bytes(x) - limit)   for every x that fits,
//
// so labels that cannot lead to a choice below a known cost are dropped. Near the best multiplier
// (dual.h) nearly all are. Symmetry needs no special treatment: i copies of a chain one way and k -
// i the other way cost the same in any order, and one label stands for all of these orders. Tables
// of equal copies are made once. See Handler and Zang, 1980, for bounding labels by a multiplier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct LabelOptions {
  Weights weights = {};   // the weight of bytes is ignored
  double limit = 0;       // finite
  double multiplier = 0;  // cost per byte; any value is valid, the best one drops most labels
  int64_t max_labels = int64_t{1} << 20;   // per call
  int64_t max_entries = int64_t{1} << 26;  // of all tables together
  std::function<bool()> stop = {};
};

struct LabelResult {
  bool finished =
      false;  // neither stopped nor too large; without `best` nothing that fits costs less
  std::optional<Solution> best;  // the minimum
};

// The pass up is done once. Calls with growing `below` raise a lower bound step by step until the
// minimum is found, in total hardly slower than the last call.
class LabelSolver {
 public:
  LabelSolver(const Problem& problem, LabelOptions options);
  ~LabelSolver();

  // The cheapest choice that fits and costs less than `below`. Time grows with the number of
  // labels.
  LabelResult Below(double below, int64_t max_labels);

 private:
  class Labels;
  std::unique_ptr<Labels> labels_;
};

}  // namespace heddle
