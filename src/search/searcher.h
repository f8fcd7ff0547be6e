// Finds plans: the door of this module.
//
//   SearchProblem problem{.model = model, .cluster = cluster, .fixed = {.tp = 8}, ...};
//   SearchResult result = Search(*FindSearcher("auto"), problem);
//   result.feasible(), result.judged.front().plan, result.lower_bound
//
// A searcher proposes plans; Search judges them, all alike: lowered and simulated, their memory against what devices
// have. What it returns is ordered: plans that fit first, fastest first, then by how much is missing. The plan of data
// parallelism and the expert's are always judged, so that no searcher is worse; and the best ones again with what their
// replicas had better compute whole than reduce.
//
// What a searcher must keep to is said in interface/proposal.h. A new one is a file with a function that returns its
// SearcherDef, declared in a header that searchers.h includes, and listed in searcher.cc.
#pragma once

#include <span>
#include <string_view>

#include "search/interface/proposal.h"

namespace heddle {

std::span<const SearcherDef> AllSearchers();
const SearcherDef* FindSearcher(std::string_view name);  // nullptr: no such searcher

SearchResult Search(const SearcherDef& searcher, const SearchTask& task);

}  // namespace heddle
