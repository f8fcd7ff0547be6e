// The message for a search in which no plan fits: what is missing, and the cheapest change of the
// command that helps.
#pragma once

#include "search/searcher.h"

namespace heddle {

// Returns the result if its best plan fits. Otherwise throws Infeasible with what is missing and
// the cheapest remedy, which `searcher` looks for until the deadline of the task.
SearchResult RequireFitting(SearchResult result, const SearcherDef& searcher,
                            const SearchTask& task);

// Throws Infeasible with the same message if the plan does not fit the problem's memory.
void RequireFits(SearchTask task, const Plan& plan);

}  // namespace heddle
