// A problem with fewer choices.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

// Some choices of a variable, ascending and not empty.
struct Allowed {
  int variable = 0;
  std::vector<int> choices;
};

// Of several entries for a variable the last counts.
struct Narrowed {
  Problem problem;
  std::vector<std::vector<int>> original;  // per variable: what its choices were; empty: the same

  std::vector<int> ToOriginal(std::vector<int> choice) const;
  // -1 where it is not among those allowed.
  int FromOriginal(size_t variable, int choice) const;
};

Narrowed Narrow(const Problem& problem, const std::vector<Allowed>& allowed);

// The problem of some variables alone, with all others as they are in `choice`. Chains are dropped.
struct Freed {
  Problem problem;
  std::vector<int> variables;  // of the problem's variables, which they were
};
Freed Free(const Problem& problem, const std::vector<int>& variables,
           const std::vector<int>& choice);

}  // namespace heddle
