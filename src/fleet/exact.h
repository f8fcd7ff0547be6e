// The shortest makespan of jobs on equal devices, by branch and bound: for small cases, to judge policies by.
//
// Runs of a job come one after the other, runs are not interrupted, copies take no time. Runs are placed in the order of
// their starts, each as early as it can on the device that is free first. Some order gives an optimal schedule: take one,
// sort its runs by start; when a run is placed, fewer than all devices have one of those before it that ends after the
// run's start, so it starts no later than there. A branch is left when
//
//   the longest rest of a job from where it is, or (what devices have behind them + work left) / devices
//
// is no shorter than the best schedule known, or when another branch has done the same runs and is in no way worse.
// Exponential; some milliseconds for five jobs of six runs.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

struct ExactSchedule {
  double makespan = 0;
  bool proved = true;  // false: `max_nodes` came first, and it is the best found
  int64_t nodes = 0;
};

// Per job the seconds of its runs in order.
ExactSchedule SolveExactly(const std::vector<std::vector<double>>& jobs, int devices,
                           int64_t max_nodes = 2'000'000);

}  // namespace heddle
