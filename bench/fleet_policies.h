// Compares the policies of fleets with the exact optimum of small random fleets.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fleet/exact.h"
#include "fleet/random_jobs.h"
#include "fleet/simulate.h"

namespace heddle {

inline void ComparePolicies() {
  constexpr uint64_t kCases = 1000;
  fmt::print(
      "policies against the exact optimum: {} random fleets of 2-3 devices, 2-5 jobs of 1-5 runs "
      "of 1-9 s\n",
      kCases);
  struct Ratios {
    double sum = 0, worst = 1;
    int64_t optimal = 0;
  };
  std::vector<Ratios> ratios(AllPolicies().size());
  uint64_t proved = 0;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    SmallFleet fleet = RandomFleet(seed);
    ExactSchedule exact = SolveExactly(fleet.jobs, fleet.devices);
    if (!exact.proved) continue;
    ++proved;
    for (size_t p = 0; p < ratios.size(); ++p) {
      FleetResult result = SimulateFleet(
          fleet.Works(), {.devices = fleet.devices, .double_buffering = false}, AllPolicies()[p]);
      double ratio = result.makespan / exact.makespan;
      ratios[p].sum += ratio;
      ratios[p].worst = std::max(ratios[p].worst, ratio);
      ratios[p].optimal += ratio == 1;
    }
  }
  for (size_t p = 0; p < ratios.size(); ++p) {
    fmt::print("  {:<12} mean {:.3f}  worst {:.3f}  optimal in {} of {}\n", AllPolicies()[p].name,
               ratios[p].sum / static_cast<double>(proved), ratios[p].worst, ratios[p].optimal,
               proved);
  }
}

}  // namespace heddle
