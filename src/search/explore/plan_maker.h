// Makes proposals of configurations: plans with the best cut, refitted to what they reserve, and improved.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/explore/configuration_list.h"
#include "search/explore/estimate.h"
#include "search/interface/proposal.h"

namespace heddle {

// Owns what proposals need, which may outlive the search: create it as a shared pointer.
class PlanMaker : public std::enable_shared_from_this<PlanMaker> {
 public:
  // The task's model and cluster must outlive it. `solver`: as in ProposeExact.
  PlanMaker(const SearchTask& task, ProblemSolver solver);

  const SearchTask& task() const { return task_; }
  Estimator& estimator() { return estimator_; }
  bool has_own_solver() const { return prices_.options().solver != nullptr; }

  // The estimate with the best cut: where messages occupy links, a layer may be moved.
  Estimate BestCut(const Configuration& configuration);

  // A proposal that makes its plan when it is judged, because most proposals never are.
  Proposal ProposeLater(const WeighedConfiguration& at);

 private:
  std::string NameOf(const Configuration& c, int64_t bucket_bytes) const;
  Proposal Propose(const Configuration& c, const Estimate& estimate, double floor);
  std::vector<Proposal> RefinedPlans(const Configuration& c, const Estimate& estimate,
                                     double floor);
  std::vector<Estimate> MovedLayers(const Configuration& c, const Estimate& estimate);
  std::vector<Proposal> RecutPlans(const Configuration& c, const Estimate& estimate, double floor);
  std::optional<Proposal> RefinedPlan(const Configuration& c, const Estimate& estimate,
                                      double floor, const Plan& plan, double share);

  const SearchTask task_;  // a copy: proposals may outlive the caller's
  Model model_;
  Prices prices_;
  Estimator estimator_;
  uint64_t hash_;
};

}  // namespace heddle
