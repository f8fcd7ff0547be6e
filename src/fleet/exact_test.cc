#include "fleet/exact.h"

#include <gtest/gtest.h>

#include <set>

#include "fleet/random_jobs.h"
#include "fleet/simulate.h"

namespace heddle {
namespace {

// A second method for the optimum with whole seconds: enumerates every state that is possible after t seconds,
// including those with idle devices.
struct Moment {
  std::vector<int> done;  // of each job: number of runs that began
  std::vector<int> left;  // of each job: remaining seconds of the current run
  auto operator<=>(const Moment&) const = default;
};

void StartSome(const SmallFleet& fleet, const Moment& at, size_t from, int free,
               std::set<Moment>& out) {
  out.insert(at);
  for (size_t j = from; j < fleet.jobs.size() && free > 0; ++j) {
    if (at.left[j] > 0 || at.done[j] == static_cast<int>(fleet.jobs[j].size())) continue;
    Moment next = at;
    next.left[j] = static_cast<int>(fleet.jobs[j][static_cast<size_t>(at.done[j])]);
    ++next.done[j];
    StartSome(fleet, next, j + 1, free - 1, out);
  }
}

int SecondBySecond(const SmallFleet& fleet) {
  size_t n = fleet.jobs.size();
  std::set<Moment> now = {{std::vector<int>(n, 0), std::vector<int>(n, 0)}};
  for (int t = 0;; ++t) {
    std::set<Moment> after;
    for (const Moment& at : now) {
      bool over = true;
      int busy = 0;
      for (size_t j = 0; j < n; ++j) {
        over = over && at.left[j] == 0 && at.done[j] == static_cast<int>(fleet.jobs[j].size());
        busy += at.left[j] > 0;
      }
      if (over) return t;
      std::set<Moment> started;
      StartSome(fleet, at, 0, fleet.devices - busy, started);
      for (Moment next : started) {
        for (int& left : next.left) left = std::max(0, left - 1);
        after.insert(std::move(next));
      }
    }
    now = std::move(after);
  }
}

TEST(ExactTest, AgreesWithEverySecondOfSmallCases) {
  int cases = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SmallFleet fleet = RandomFleet(seed, 3);
    size_t runs = 0;
    for (const auto& job : fleet.jobs) runs += job.size();
    if (runs > 10) continue;
    ExactSchedule exact = SolveExactly(fleet.jobs, fleet.devices);
    EXPECT_TRUE(exact.proved);
    EXPECT_EQ(exact.makespan, SecondBySecond(fleet)) << "seed " << seed;
    ++cases;
  }
  EXPECT_GE(cases, 20);
}

TEST(ExactTest, NoPolicyIsBetter) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SmallFleet fleet = RandomFleet(seed);
    ExactSchedule exact = SolveExactly(fleet.jobs, fleet.devices);
    ASSERT_TRUE(exact.proved) << "seed " << seed << ", " << exact.states;
    std::vector<JobWork> works = fleet.Works();
    EXPECT_GE(exact.makespan * (1 + 1e-12), BoundOf(works, fleet.devices).seconds());
    for (const PolicyDef& policy : AllPolicies()) {
      for (bool buffered : {false, true}) {
        FleetResult result =
            SimulateFleet(works, {.devices = fleet.devices, .double_buffering = buffered}, policy);
        EXPECT_GE(result.makespan, exact.makespan) << policy.name << ", seed " << seed;
      }
    }
  }
}

TEST(ExactTest, SaysWhereItStopped) {
  SmallFleet fleet = RandomFleet(3);
  ExactSchedule stopped = SolveExactly(fleet.jobs, fleet.devices, 2);
  EXPECT_FALSE(stopped.proved);
}

}  // namespace
}  // namespace heddle
