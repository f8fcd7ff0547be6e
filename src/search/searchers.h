// The searchers there are.
#pragma once

#include "search/searcher.h"

namespace heddle {

SearcherDef AutoSearcher();
SearcherDef DataSearcher();
SearcherDef ExpertSearcher();

// The expert's plan at the degrees of another: with one axis beside the data axis, and one policy. Nothing where there is
// none.
std::optional<Proposal> ExpertLike(const SearchProblem& problem, const Plan& plan);

}  // namespace heddle
