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

// Megatron's rules with context parallelism, where samples are too long or too few: with fewer samples than devices the
// rest of these along the sequence; and half of the best plan's stages, data ranks or tensor ranks, where it recomputes
// though a micro-batch is one sample. Nothing where degrees are fixed.
std::vector<Proposal> ContextPlans(const SearchProblem& problem, const Plan& best);

}  // namespace heddle
