// The exact search over configurations (auto.cc), and searchers that solve its problems otherwise (exact_searchers.cc).
#pragma once

#include "search/interface/proposal.h"
#include "search/prices/prices.h"

namespace heddle {

// Every stage problem is solved by `solver`, on the model as it is; null: folded, on a shortened model. With a solver no
// configuration is weighed once the deadline has passed.
Proposals ProposeExact(const SearchTask& task, ProblemSolver solver);
// The same, folded, with a bound that is final only after `close_bound`: a thread of its own computes it.
Proposals ProposeExactWithBoundLater(const SearchTask& task);

SearcherDef IlpSearcher();
SearcherDef BruteSearcher();

}  // namespace heddle
