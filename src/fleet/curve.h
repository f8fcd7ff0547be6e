// What a job takes on 1, 2, 4, ... devices, as the planner finds it: the curve that dividing devices among jobs needs.
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
  int64_t memory_limit = 0;  // bytes a device may use; 0: what it has, less what searches reserve
  SimOptions sim = {};
  DType precision = DType::kBF16;
  int64_t steps = 1;  // of the job
  double budget = 0;  // seconds for each search; 0: no limit
  int64_t least_devices = 1;
  int64_t most_devices = 0;  // 0: all of the cluster
};

struct PlannedCurve {
  JobCurve curve;
  std::vector<Plan> plans;  // of its points
};

// Searches for the best plan on the first 1, 2, 4, ... devices of a cluster. Numbers on which nothing fits, and those that
// are no faster than fewer, are left out; no points: it fits on none. Simulated, as all that the planner says.
PlannedCurve FindCurve(const Model& model, const Cluster& cluster, const CurveOptions& options);

}  // namespace heddle
