// Which operations data-parallel replicas do for the whole batch, each of them: so that a gradient is whole everywhere
// and need not be reduced. What such an operation reads is gathered, unless it was made for the whole batch too.
//
//   minimise   sum over operations i of linear_i x_i  +  sum over values of cost_v b_v,     x_i = 0 where forced
//
//   x_i   1: every replica does i for the whole batch. linear_i is what that takes beyond the own part of the batch,
//         less the reduction of gradients that it saves
//   b_v   1: the value is gathered: a reader has x = 1, its producer has not
//
// TAG (Zhang et al., arXiv 2302.06126) solves this as an integer program, with a b for every pair of producer and reader
// (Payment::kPerReader). But penalties are for x_reader = 1 and x_producer = 0 alone and all else is linear, which is a
// minimum cut (project selection): on the source's side what is done for the whole batch,
//
//   source -> i   max(-linear_i, 0)          i -> sink   max(linear_i, 0)          reader -> producer   cost_v
//
// A value that is gathered once is paid once, however many read it (Payment::kOnce): readers lead to a vertex of the
// value's own, without limit, and that to the producer. Costs of kForbidden make an implication: what reads the value may
// be done whole only where what makes it is.
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
  int producer = -1;  // -1: made elsewhere, never for the whole batch
  double cost = 0;    // at least 0
  std::vector<int> readers = {};
  bool operator==(const CutValue&) const = default;
};

struct CutProblem {
  std::vector<CutOperation> operations;
  std::vector<CutValue> values;
  bool operator==(const CutProblem&) const = default;
};

enum class Payment : uint8_t { kPerReader, kOnce };

// kForbidden where something forced is whole, or an implication broken.
double Evaluate(const CutProblem& problem, const std::vector<bool>& whole, Payment payment);

struct Cut {
  double objective = 0;     // never above 0: nothing whole costs nothing
  std::vector<bool> whole;  // per operation
};

// Exact but for rounding; of equally good choices that with fewest operations whole.
Cut SolveByCut(const CutProblem& problem, Payment payment);

// The same as an integer program, solved by CBC (search/solver/cbc.h): what the cut is compared with. Throws InputError where
// heddle was built without CBC, or CBC does not finish in time.
Cut SolveByCbc(const CutProblem& problem, Payment payment, double seconds = 600);

}  // namespace heddle
