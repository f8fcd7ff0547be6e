// Small random fleets for tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fleet/job_work.h"

namespace heddle {

struct SmallFleet {
  int devices = 2;
  std::vector<std::vector<double>> jobs;  // of each job, the seconds of its shard runs

  // The fleet as jobs of one step without copies.
  std::vector<JobWork> Works() const {
    std::vector<JobWork> works;
    for (const std::vector<double>& seconds : jobs) {
      JobWork work{.name = "job " + std::to_string(works.size())};
      for (double s : seconds) {
        work.runs.push_back({.shard = static_cast<int>(work.runs.size()), .seconds = s});
      }
      works.push_back(std::move(work));
    }
    return works;
  }
};

// 2 or 3 devices, 2 to 5 jobs with 1 to 5 runs of 1 to `longest` whole seconds each.
inline SmallFleet RandomFleet(uint64_t seed, uint64_t longest = 9) {
  uint64_t counter = 0;
  auto between = [&](uint64_t low, uint64_t high) {
    return low + RandomBelow(high - low + 1, seed, 0, counter++);
  };
  SmallFleet fleet;
  fleet.devices = static_cast<int>(between(2, 3));
  for (uint64_t jobs = between(2, 5); jobs > 0; --jobs) {
    std::vector<double> runs;
    for (uint64_t r = between(1, 5); r > 0; --r) {
      runs.push_back(static_cast<double>(between(1, longest)));
    }
    fleet.jobs.push_back(std::move(runs));
  }
  return fleet;
}

}  // namespace heddle
