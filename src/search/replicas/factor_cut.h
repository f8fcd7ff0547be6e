// Chooses the operations that each data-parallel replica executes for the whole batch ("whole"), so
// that gradients are complete everywhere and need not be reduced. A value that such an operation
// reads is all-gathered, unless it was made for the whole batch as well.
//
//   minimise   sum over operations i of linear_i x_i  +  sum over values of cost_v b_v,     x_i = 0 where forced
//
//   x_i   1: every replica executes i for the whole batch. linear_i is the extra time for that, less the time of the
//         gradient reduction that it saves
//   b_v   1: the value is gathered, because a reader has x = 1 and its producer has x = 0
//
// TAG (Zhang et al., arXiv 2302.06126) solves this as an integer program with a b for every pair of
// producer and reader (Payment::kPerReader). Since penalties occur only for x_reader = 1 and
// x_producer = 0, and everything else is linear, it is a minimum cut (project selection). The
// source's side has the operations with x = 1:
//
//   source -> i   max(-linear_i, 0)          i -> sink   max(linear_i, 0)          reader -> producer   cost_v
//
// With Payment::kOnce a gathered value is paid once for all of its readers: readers lead with
// unlimited capacity to a vertex of the value, and this vertex leads to the producer. A cost of
// kForbidden makes an implication: readers of the value may be whole only if its producer is.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

struct CutOperation {
  double linear = 0;  // finite
  bool forced = false;
  bool operator==(const CutOperation&) const = default;
};

struct CutValue {
  int producer = -1;  // -1: made elsewhere and never for the whole batch
  double cost = 0;    // not negative
  std::vector<int> readers = {};
  bool operator==(const CutValue&) const = default;
};

struct CutProblem {
  std::vector<CutOperation> operations;
  std::vector<CutValue> values;
  bool operator==(const CutProblem&) const = default;
};

enum class Payment : uint8_t { kPerReader, kOnce };

// kForbidden where a forced operation is whole or an implication is violated.
double Evaluate(const CutProblem& problem, const std::vector<bool>& whole, Payment payment);

struct Cut {
  double objective = 0;     // never above 0: making nothing whole costs nothing
  std::vector<bool> whole;  // per operation
};

// Exact up to rounding. Of several optimal cuts the one with the fewest whole operations.
Cut SolveByCut(const CutProblem& problem, Payment payment);

// The same as an integer program, solved by CBC (search/solver/cbc.h), for comparison. Throws
// InputError where heddle was built without CBC or CBC does not finish in time.
Cut SolveByCbc(const CutProblem& problem, Payment payment, double seconds = 600);

}  // namespace heddle
