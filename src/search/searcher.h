// Finds plans. This is the interface of the module.
//
//   SearchProblem problem{.model = model, .cluster = cluster, .fixed = {.tp = 8}, ...};
//   SearchResult result = Search(*FindSearcher("auto"), problem);
//   result.feasible(), result.judged.front().plan, result.lower_bound
//
// A searcher proposes plans; Search judges all of them in the same way: they are lowered,
// simulated, and their memory is compared with that of the devices. The result is ordered: plans
// that fit first, the fastest first, then by how much memory is missing. The plans of data
// parallelism and of the expert are always judged, so no searcher is worse than these; and the best
// plans are judged again with gradient factors (replicas/with_factors.h).
//
// interface/proposal.h says what a searcher must guarantee. A new searcher is a file with a
// function that returns its SearcherDef, declared in a header that searchers.h includes and listed
// in searcher.cc.
#pragma once

#include <span>
#include <string_view>

#include "search/interface/proposal.h"

namespace heddle {

std::span<const SearcherDef> AllSearchers();
const SearcherDef* FindSearcher(std::string_view name);  // nullptr: no such searcher

SearchResult Search(const SearcherDef& searcher, const SearchTask& task);

}  // namespace heddle
