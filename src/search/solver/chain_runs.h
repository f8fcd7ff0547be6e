// Runs of equal copies within the chains of a problem: what can be one block to a power.
#pragma once

#include <vector>

#include "search/solver/problem.h"

namespace heddle {

// Copies [first, last) of a chain. Whatever is before and after touches them through the ends alone.
struct ChainRun {
  const VariableChain* chain = nullptr;
  size_t first = 1, last = 1;
  std::vector<int> ends;  // indices into a copy: the variables that the next copy has tables with
  std::vector<int> outside;  // variables that every copy has the same tables with, ascending
  std::vector<int>
      pairs;  // of Problem::pairs: those inside copies, from the copy before, and with `outside`

  int64_t unspelled = 0;  // of the chain, where its repeated copy is in the run

  int64_t length() const { return static_cast<int64_t>(last - first) + unspelled; }
};

// The longest runs, in order, of at least two copies each. O(variables + pairs).
std::vector<ChainRun> FindRuns(const Problem& problem);

}  // namespace heddle
