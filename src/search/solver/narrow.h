// Problems restricted to fewer choices.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

// The allowed choices of a variable, in ascending order and not empty.
struct Allowed {
  int variable = 0;
  std::vector<int> choices;
};

// Of several entries for a variable the last one counts.
struct Narrowed {
  Problem problem;
  // Per variable: the original numbers of its choices; empty: unchanged.
  std::vector<std::vector<int>> original;

  std::vector<int> ToOriginal(std::vector<int> choice) const;
  // -1 where the choice is not allowed.
  int FromOriginal(size_t variable, int choice) const;
};

Narrowed Narrow(const Problem& problem, const std::vector<Allowed>& allowed);

// The problem of some variables, with all others fixed as in `choice`. Chains are dropped.
struct Freed {
  Problem problem;
  std::vector<int> variables;  // their numbers in the original problem
};
Freed Free(const Problem& problem, const std::vector<int>& variables,
           const std::vector<int>& choice);

}  // namespace heddle
