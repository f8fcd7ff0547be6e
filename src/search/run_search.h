// The phases of a search: a searcher and the baselines propose plans, the best are simulated, then improved.
//
// Phases overlap on machines with several cores: while the searcher still weighs configurations, its best plans so far are
// simulated and the expert's grid is weighed. Which plans are judged, and in which order, depends on the problem alone.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

// Adds what was judged to `out`, and says there whether the budget ended the search. Throws SimulationStopped if the search
// is interrupted while it simulates; `out` then has what was judged before.
void RunSearch(const SearcherDef& searcher, const SearchTask& task, SearchResult& out);

}  // namespace heddle
