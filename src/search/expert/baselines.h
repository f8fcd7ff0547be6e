// The baselines of the search: data parallelism and the expert's plan.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

SearcherDef DataSearcher();
SearcherDef ExpertSearcher();

// The expert's plan at the degrees of another plan: one axis beside the data axis, and one policy.
// Nothing where it does not exist.
std::optional<Proposal> ExpertLike(const SearchTask& task, const Plan& plan);

}  // namespace heddle
