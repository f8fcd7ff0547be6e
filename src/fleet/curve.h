// The step time of a job on 1, 2, 4, ... devices by the planner. Dividing devices among jobs needs this curve.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fleet/spase.h"
#include "search/searcher.h"

namespace heddle {

struct CurveOptions {
  std::string searcher = "auto";
  std::string optimizer = "adamw";
  Pruning pruning = {};
  bool local_batch_statistics = true;
  int64_t memory_limit = 0;  // bytes a device may use; 0: its memory less the reserve of searches
  SimOptions sim = {};
  DType precision = DType::kBF16;
  int64_t steps = 1;  // training steps of the job
  double budget = 0;  // seconds for each search; 0: no limit
  int64_t least_devices = 1;
  int64_t most_devices = 0;  // 0: all of the cluster
};

struct PlannedCurve {
  JobCurve curve;
  std::vector<Plan> plans;  // of the points of the curve
};

// Searches for the best plan on the first 1, 2, 4, ... devices of a cluster. A number of devices is left out if no plan
// fits or if fewer devices are as fast; without points, the job fits on none. All times are simulated.
PlannedCurve FindCurve(const Model& model, const Cluster& cluster, const CurveOptions& options);

}  // namespace heddle
