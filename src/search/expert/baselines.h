// What the searchers are measured against: data parallelism and the expert's plan.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

SearcherDef DataSearcher();
SearcherDef ExpertSearcher();

// The expert's plan at the degrees of another: with one axis beside the data axis, and one policy. Nothing where there is
// none.
std::optional<Proposal> ExpertLike(const SearchTask& task, const Plan& plan);

}  // namespace heddle
