// Published runs beside what the search finds for them: the same model, cluster, batch, precision and software, both
// simulated alike.
//
//   PublishedPlanReport report = MakePlanReport(CompareAll(BundledRuns(), [](size_t done) {}));
//   report.at_least_as_fast, report.compared, report.mean_speedup
//
// A published run did fit: where the simulator says that it needs more memory than a plan may use (search/searcher.h),
// the search may use as much as it needs, and the comparison says so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "validate/published_runs.h"

namespace heddle {

struct PlanComparison {
  std::string id, stack;
  std::string reason;                      // why nothing is compared; else empty
  std::string published;                   // its degrees, "dp 8 x tp 8 x pp 16, ..."
  double published_step = 0;               // seconds, simulated
  double published_bytes = 0, limit = 0;   // of a device: needed, and what a plan may use otherwise
  std::string found;                       // its degrees
  std::string from;                        // who proposed it (search/searcher.h)
  double found_step = 0, found_bytes = 0;  // likewise
  bool fits = false;                       // the found plan does
  double search_seconds = 0;

  bool raised() const { return published_bytes > limit; }  // the limit, for this run
  double speedup() const { return fits ? published_step / found_step : 0; }
  bool as_fast() const { return fits && found_step <= published_step * (1 + 1e-9); }
};

// Never throws InputError: what cannot be compared has a reason.
PlanComparison Compare(const PublishedRun& run);

// One after the other (a search uses all cores); `done` is called after each.
std::vector<PlanComparison> CompareAll(const std::vector<PublishedRun>& runs,
                                       const std::function<void(size_t)>& done = nullptr);

struct PublishedPlanReport {
  std::vector<PlanComparison> runs;                  // that were compared
  int at_least_as_fast = 0, faster = 0, raised = 0;  // faster: by more than a thousandth
  double mean_speedup = 0;                           // geometric
  double search_seconds = 0;
};

PublishedPlanReport MakePlanReport(std::vector<PlanComparison> runs);

Json ToJson(const PublishedPlanReport& report);
std::string ToText(const PublishedPlanReport& report);
// The same as a page of documentation.
std::string ToMarkdown(const PublishedPlanReport& report);

}  // namespace heddle
