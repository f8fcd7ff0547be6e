// What lost: the plans that were simulated beside the one that was chosen, why they were not, and what their names mean.
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
  std::string step;  // empty: it was not simulated
  std::string why;   // "12.3 % slower", "stage 3 needs 90.1 GiB, 14.9 GiB more than may be used"
};

// The plans after the first, in order; of those with the same name, step and reason, or that differ in the size of buckets
// alone, the first. The result must outlive them.
std::vector<Alternative> AlternativesOf(const SearchResult& result);

// The table with at most kMostAlternatives rows, how many more there are, and what the words in it mean. Nothing where no
// plan lost.
std::string AlternativesTable(const SearchResult& result);

// Words in the names of plans that no option of `heddle plan` explains. docs/planner.md and the help have them all.
struct PlanTerm {
  std::string_view word, meaning;
};
std::span<const PlanTerm> PlanTerms();

}  // namespace heddle
