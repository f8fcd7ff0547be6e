// Plans by Megatron's rules (plan/expert.h) over a grid of degrees, with recomputation by layer until they fit.
//
//   std::vector<Proposal> plans = ExpertGrid(problem, &judged.front());
//
// The exact search has one axis beside the data axis; the grid has context and expert parallelism beside tensor
// parallelism. All points are estimated (expert_estimate.h), and plans are made of those of which most is expected.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

// What a grid runs over; empty: all that the problem allows.
struct ExpertChoices {
  std::vector<int64_t> tp = {}, pp = {}, cp = {}, ep = {};
  std::vector<int> zero = {};
};

// The points of a grid that keep to what the problem fixes, in a fixed order.
std::vector<Degrees> ExpertDegrees(const SearchTask& task, const ExpertChoices& choices);

// Plans of at most so many of these points, the fastest estimates first. `best` is the best plan known, or null: points
// that are not expected to be faster are left out. Where no point is estimated to fit: the plan that needs least, but only
// without a best plan. Empty `from`: plans are named by their degrees.
std::vector<Proposal> BestExperts(const SearchTask& task, std::vector<Degrees> points,
                                  const std::string& from, const JudgedPlan* best, size_t most);

// All of the grid. Nothing on clusters of unlike devices.
std::vector<Proposal> ExpertGrid(const SearchTask& task, const JudgedPlan* best);

// The same in two steps, for when the best plan is not known yet. First the points are weighed whose plans may be faster
// than `seconds`. Once the best plan is known, `plans` makes proposals of them; where the best plan is slower than `seconds`,
// it weighs all points again.
struct WeighedGrid {
  std::vector<Proposal>
      likely;  // a few that `plans` will probably contain: they can be simulated ahead
  std::function<std::vector<Proposal>(const JudgedPlan* best)>
      plans;  // empty where the grid has no points
};
WeighedGrid WeighExpertGrid(const SearchTask& task, double seconds);

}  // namespace heddle
