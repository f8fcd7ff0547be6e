// The alternatives: the plans that were simulated besides the chosen one, why each was not chosen, and what their names
// mean.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/searcher.h"

namespace heddle {

constexpr size_t kMostAlternatives = 10;  // rows of the table

struct Alternative {
  const JudgedPlan* plan = nullptr;
  std::string step;  // empty: the plan was not simulated
  std::string why;   // "12.3 % slower", "stage 3 needs 90.1 GiB, 14.9 GiB more than may be used"
};

// The judged plans after the chosen one, in order. Of plans with the same name, step and reason, or that differ only in
// the bucket size, it has the first. The result must outlive them.
std::vector<Alternative> AlternativesOf(const SearchResult& result);

// The table with at most kMostAlternatives rows, the number of those that are left out, and the meaning of the words in
// it. Empty if there are no alternatives.
std::string AlternativesTable(const SearchResult& result);

// A word in the names of plans that is not an option of `heddle plan`. docs/planner.md and the help list all of them.
struct PlanTerm {
  std::string_view word, meaning;
};
std::span<const PlanTerm> PlanTerms();

}  // namespace heddle
