// Compares published runs with the plans that the search finds for the same model, cluster, batch, precision and
// software. Both are simulated in the same way.
//
//   PublishedPlanReport report = MakePlanReport(CompareAll(BundledRuns(), [](size_t done) {}));
//   report.at_least_as_fast, report.compared, report.mean_speedup
//
// A published run did fit. If the simulator predicts that it needs more memory than a plan may use (search/searcher.h),
// the search may use as much, and the comparison says so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "validate/published_runs.h"

namespace heddle {

struct PlanComparison {
  std::string id, stack;
  std::string reason;                     // why there is no comparison; empty if there is one
  std::string published;                  // its degrees, "dp 8 x tp 8 x pp 16, ..."
  double published_step = 0;              // seconds, simulated
  double published_bytes = 0, limit = 0;  // per device: bytes needed, and the usual limit of a plan
  std::string found;                      // its degrees
  std::string from;                       // the searcher that proposed it (search/searcher.h)
  double found_step = 0, found_bytes = 0;  // of the found plan
  bool fits = false;                       // whether the found plan fits
  double search_seconds = 0;

  bool raised() const {
    return published_bytes > limit;
  }  // whether the limit was raised for this run
  double speedup() const { return fits ? published_step / found_step : 0; }
  bool as_fast() const { return fits && found_step <= published_step * (1 + 1e-9); }
};

// Does not throw InputError: a run that cannot be compared has a `reason`.
PlanComparison Compare(const PublishedRun& run);

// Compares one run after the other, because a search uses all cores. Calls `done` after each.
std::vector<PlanComparison> CompareAll(const std::vector<PublishedRun>& runs,
                                       const std::function<void(size_t)>& done = nullptr);

struct PublishedPlanReport {
  std::vector<PlanComparison> runs;                  // the compared runs
  int at_least_as_fast = 0, faster = 0, raised = 0;  // faster: by more than 0.1 %
  double mean_speedup = 0;                           // geometric mean
  double search_seconds = 0;
};

PublishedPlanReport MakePlanReport(std::vector<PlanComparison> runs);

Json ToJson(const PublishedPlanReport& report);
std::string ToText(const PublishedPlanReport& report);
// The report as a page of documentation.
std::string ToMarkdown(const PublishedPlanReport& report);

}  // namespace heddle
