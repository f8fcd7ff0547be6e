// Plans by Megatron's rules (plan/expert.h) over a grid of degrees, with recomputation by layer so
// that they fit.
//
//   std::vector<Proposal> plans = ExpertGrid(problem, &judged.front());
//
// The exact search has one axis beside the data axis, whereas the grid has context and expert
// parallelism beside tensor parallelism. All points are estimated (expert_estimate.h), and plans
// are made of the most promising ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

// The values that a grid runs over; empty: all that the problem allows.
struct ExpertChoices {
  std::vector<int64_t> tp = {}, pp = {}, cp = {}, ep = {};
  std::vector<int> zero = {};
};

// The points of a grid that satisfy the problem's fixed degrees, in a fixed order.
std::vector<Degrees> ExpertDegrees(const SearchTask& task, const ExpertChoices& choices);

// The name of the plan at these degrees.
std::string NameOfExpert(const Degrees& degrees);

// Plans of at most `most` of these points, the fastest estimates first. `best` is the best known
// plan or null; points that are not expected to be faster are left out. Where no point is estimated
// to fit and no best plan is given: the plan that needs least memory. If `from` is empty, plans are
// named by their degrees.
std::vector<Proposal> BestExperts(const SearchTask& task, std::vector<Degrees> points,
                                  const std::string& from, const JudgedPlan* best, size_t most);

// The whole grid. Nothing on clusters of unlike devices.
std::vector<Proposal> ExpertGrid(const SearchTask& task, const JudgedPlan* best);

// The same in two steps, for when the best plan is not known yet. First the points are weighed
// whose plans may take less than `seconds`. Once the best plan is known, `plans` makes proposals of
// them; if that plan is slower than `seconds`, it weighs all points again.
struct WeighedGrid {
  // A few proposals that `plans` will probably contain, so that they can be simulated ahead.
  std::vector<Proposal> likely;
  // Empty where the grid has no points.
  std::function<std::vector<Proposal>(const JudgedPlan* best)> plans;
};
WeighedGrid WeighExpertGrid(const SearchTask& task, double seconds);

}  // namespace heddle
