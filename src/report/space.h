// A small search space, evaluated whole: every configuration the search enumerates (search/explore/configuration.h), with and
// without offload, under every policy of recomputation, with the best strategies for it, estimated and simulated.
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
  bool fits = false;            // simulated
  bool estimated_fits = false;  // by the estimate
  // None where there is no estimate, or no plan of it that can be lowered.
  std::optional<double> step_seconds, estimate_seconds;
  double floor_seconds = 0;
  int64_t reserved_bytes = 0, estimated_bytes = 0;
  double bubble = 0, exposed_communication = 0, mfu = 0;
};

struct Space {
  std::vector<SpaceRow> rows;  // what fits first, fastest first
  int64_t memory_limit = 0;
  // Of the estimated and simulated steps: of all that have both, and of those that fit. None for fewer than two.
  std::optional<double> spearman, spearman_fitting;
  // How much slower than the fastest is what the estimate takes for fastest; none where that does not fit.
  std::optional<double> regret;
  std::optional<double> chosen_seconds, best_seconds;
  size_t below_floor = 0;  // steps that fit and are faster than their bound
};

// A configuration and its policy: all policies, or that of the problem.
std::vector<std::pair<Configuration, RecomputePolicy>> SpaceOf(const SearchProblem& problem);

// On all processors. `progress` is told how many are done, from any thread.
Space EvaluateSpace(const SearchProblem& problem,
                    const std::function<void(size_t done)>& progress = nullptr);

// The correlation of ranks; equal values have the mean of their ranks. 0 where one of the two is constant.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

// dp,tp,pp,... with a line of names first; empty where a number is not known.
std::string ToCsv(const Space& space);
Json ToJson(const Space& space);  // with its rows
Json SummaryJson(const Space& space);
// "786 configurations, 700 fit; ...", one line.
std::string SummaryLine(const Space& space);

}  // namespace heddle
