// Runs of equal copies within the chains of a problem, which can be solved as powers of one block.
#pragma once

#include <vector>

#include "search/solver/problem.h"

namespace heddle {

// Copies [first, last) of a chain. Variables before and after the run have tables with its ends
// only.
struct ChainRun {
  const VariableChain* chain = nullptr;
  size_t first = 1, last = 1;
  std::vector<int> ends;  // indices into a copy: the variables that the next copy has tables with
  // Variables that have the same tables with every copy, in ascending order.
  std::vector<int> outside;
  std::vector<int>
      // Indices into Problem::pairs: pairs inside copies, with the copy before, and with `outside`.
      pairs;

  // Copies of the chain without variables, if its repeated copy is in the run.
  int64_t left_out = 0;

  int64_t length() const { return static_cast<int64_t>(last - first) + left_out; }
};

// The longest runs of at least two copies each, in order. O(variables + pairs).
std::vector<ChainRun> FindRuns(const Problem& problem);

}  // namespace heddle
