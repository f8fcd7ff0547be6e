// The shortest makespan of jobs on equal devices by branch and bound, for comparison with policies on small cases.
//
// Shard runs of a job follow each other, are not interrupted, and copies take no time. Runs are placed in the order of
// their starts, each as early as possible on the device that is free first. Some order gives an optimal schedule: sort
// the runs of an optimal schedule by start. When a run is placed, at least one device has no earlier run that ends
// after the start of this run in the optimal schedule, so it starts no later than there. A branch is cut if
//
//   the longest remaining chain of runs of a job from its position, or (busy time of devices + work left) / devices
//
// is no shorter than the best known schedule, or if another branch has placed the same runs and is nowhere later. The
// time is exponential; five jobs of six runs take some milliseconds.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

struct ExactSchedule {
  double makespan = 0;
  bool proved = true;  // false: the limit `max_states` was reached, and this is the best found
  int64_t states = 0;  // partial schedules that were visited
};

// `jobs`: for each job the seconds of its runs in order.
ExactSchedule SolveExactly(const std::vector<std::vector<double>>& jobs, int devices,
                           int64_t max_states = 2'000'000);

}  // namespace heddle
