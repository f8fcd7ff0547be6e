// Exhaustive evaluation of a small search space: every configuration that the search enumerates
// (search/explore/configuration.h), with and without offload, under every recomputation policy, with the best
// strategies for it, is estimated and simulated.
//
//   Space space = EvaluateSpace(problem, progress);
//   ToCsv(space), space.spearman, space.regret
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "search/explore/configuration.h"

namespace heddle {

struct SpaceRow {
  Configuration configuration;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  bool fits = false;            // by the simulation
  bool estimated_fits = false;  // by the estimate
  // nullopt if there is no estimate, or no plan that can be lowered.
  std::optional<double> step_seconds, estimate_seconds;
  double floor_seconds = 0;
  int64_t reserved_bytes = 0, estimated_bytes = 0;
  double bubble = 0, exposed_communication = 0, mfu = 0;
};

struct Space {
  std::vector<SpaceRow> rows;  // those that fit first, fastest first
  int64_t memory_limit = 0;
  // Rank correlation of estimated and simulated steps: of all rows that have both, and of those that fit. nullopt if
  // there are fewer than two.
  std::optional<double> spearman, spearman_fitting;
  // How much slower the row with the best estimate is than the fastest one, as a fraction. nullopt if it does not fit.
  std::optional<double> regret;
  std::optional<double> chosen_seconds, best_seconds;
  size_t below_floor =
      0;  // rows that fit and are faster than their lower bound, which would be a bug
};

// All configurations, each with every recomputation policy, or with that of the problem if it fixes one.
std::vector<std::pair<Configuration, RecomputePolicy>> SpaceOf(const SearchProblem& problem);

// Uses all cores. Calls `progress` with the number of finished rows, from any thread.
Space EvaluateSpace(const SearchProblem& problem,
                    const std::function<void(size_t done)>& progress = nullptr);

// Spearman's rank correlation; equal values have the mean of their ranks. 0 if `a` or `b` is constant.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

// CSV with a header line (dp,tp,pp,...). Unknown numbers are empty.
std::string ToCsv(const Space& space);
Json ToJson(const Space& space);  // with its rows
Json SummaryJson(const Space& space);
// "786 configurations, 700 fit; ...", one line.
std::string SummaryLine(const Space& space);

}  // namespace heddle
