// What is said where no plan of a search fits: what is missing, and the cheapest change of the command that would help.
#pragma once

#include "search/searcher.h"

namespace heddle {

// The result, if its best plan fits. Otherwise throws Infeasible with what is missing and the cheapest remedy, which is
// looked for with `searcher` until the deadline of the task.
SearchResult RequireFitting(SearchResult result, const SearcherDef& searcher,
                            const SearchTask& task);

// Throws Infeasible, in the same words, where the plan does not fit the problem's memory.
void RequireFits(SearchTask task, const Plan& plan);

}  // namespace heddle
