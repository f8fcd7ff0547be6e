// The exact search over configurations (auto.cc), and searchers that use other solvers in it
// (exact_searchers.cc).
#pragma once

#include "search/interface/proposal.h"
#include "search/prices/prices.h"

namespace heddle {

// `solver` solves every stage problem on the unshortened model; null: SolveFolded on the short
// model. With a solver, no configuration is weighed after the deadline.
Proposals ProposeExact(const SearchTask& task, ProblemSolver solver);
// The same with SolveFolded, and with a bound that a separate thread computes: it is final only
// after `close_bound`.
Proposals ProposeExactWithBoundLater(const SearchTask& task);

SearcherDef IlpSearcher();
SearcherDef BruteSearcher();

}  // namespace heddle
