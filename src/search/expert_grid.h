// Plans by Megatron's rules (plan/expert.h) over a grid of degrees, with recomputation by layer until they fit.
//
//   std::vector<Proposal> plans = ExpertGrid(problem, &judged.front());
//
// The exact search has one axis beside the data axis; the grid has context and expert parallelism beside tensor
// parallelism. Points are estimated (expert_estimate.h), and those of which most is expected are simulated, until none of
// the rest is expected to be faster than the best plan known, or the effort is spent. What is expected learns from the
// plans simulated before, of time and of memory. A point whose plan turns out not to fit is simulated again with more
// layers recomputed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/searcher.h"

namespace heddle {

// What a grid runs over; empty: all that the problem allows.
struct ExpertChoices {
  std::vector<int64_t> tp = {}, pp = {}, cp = {}, ep = {};
};

struct ExpertEffort {
  size_t most = 12;  // plans that are simulated
  double work = 0;   // of simulation (judge.h), once a plan fits
};

// The points of a grid that keep to what the problem fixes, in a fixed order.
std::vector<Degrees> ExpertDegrees(const SearchProblem& problem, const ExpertChoices& choices);

// Of these points the plans that were simulated, fitting and fastest first, each with `judged`. `best` is the best plan
// known, or null: points that are not expected to be faster are left out. Empty `from`: named by their degrees.
std::vector<Proposal> BestExperts(const SearchProblem& problem, std::vector<Degrees> points,
                                  const std::string& from, const JudgedPlan* best,
                                  const ExpertEffort& effort);

// All of the grid. Nothing on clusters of unlike devices.
std::vector<Proposal> ExpertGrid(const SearchProblem& problem, const JudgedPlan* best);

}  // namespace heddle
