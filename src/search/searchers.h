// The searchers there are.
#pragma once

#include "search/prices/prices.h"
#include "search/searcher.h"

namespace heddle {

SearcherDef AutoSearcher();
SearcherDef DataSearcher();
SearcherDef ExpertSearcher();
SearcherDef IlpSearcher();
SearcherDef BruteSearcher();
SearcherDef MctsSearcher();

// What plans of data parallelism come from, and with shares by speed.
constexpr std::string_view kProportional = "data in proportion to speed";

// The exact search, and where devices or links differ the tree search beside it.
Proposals ProposeAnywhere(const SearchProblem& problem);

// What `auto` proposes, every stage problem solved by `solver`, on the model as it is; null: as `auto` does. With a
// solver no configuration is weighed once the deadline has passed.
Proposals ProposeExact(const SearchProblem& problem, ProblemSolver solver);

// The expert's plan at the degrees of another: with one axis beside the data axis, and one policy. Nothing where there is
// none.
std::optional<Proposal> ExpertLike(const SearchProblem& problem, const Plan& plan);

// The best of the plans judged, with what their replicas had better compute whole than reduce (with_factors.h): gradients
// alone, and nodes too. Nothing of plans that wait for no traffic.
std::vector<Proposal> FactoredPlans(const SearchProblem& problem,
                                    const std::vector<JudgedPlan>& judged);

// The faster of a plan and the same with gradients by factors, as simulated.
Proposal FasterSync(const SearchProblem& problem, Proposal reduced);

}  // namespace heddle
