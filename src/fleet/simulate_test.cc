#include "fleet/simulate.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "fleet/random_jobs.h"

namespace heddle {
namespace {

const PolicyDef& Lrtf() { return *FindPolicy("lrtf"); }

// A job of k shards that take one second forward, one second backward, and have `bytes` each.
JobWork ChainJob(int shards, int64_t steps, int64_t bytes = 0) {
  JobWork job{.name = "chain", .steps = steps};
  for (int s = 0; s + 1 < shards; ++s) {
    job.runs.push_back({.shard = s, .seconds = 1, .fetch_bytes = bytes});
  }
  for (int s = shards - 1; s >= 0; --s) {
    job.runs.push_back(
        {.shard = s, .backward = true, .seconds = 1, .fetch_bytes = bytes, .evict_bytes = bytes});
  }
  return job;
}

TEST(FleetSimulateTest, ReachesTheBoundOfEqualJobs) {
  // 6 jobs on 4 devices take 1.5 times as long as one job if they alternate, and twice as long one after the other.
  std::vector<JobWork> jobs(6, ChainJob(2, 20));
  FleetResult result = SimulateFleet(jobs, {.devices = 4}, Lrtf());
  EXPECT_EQ(BoundOf(jobs, 4).seconds(), 90);
  EXPECT_LE(result.makespan, 92);
  EXPECT_EQ(result.runs, 6 * 20 * 3);
  double busy = 0;
  for (double seconds : result.busy) busy += seconds;
  EXPECT_EQ(busy, 360);
}

TEST(FleetSimulateTest, CopiesHideBehindCompute) {
  std::vector<JobWork> jobs = {ChainJob(3, 10, 100), ChainJob(3, 10, 100)};
  FleetDevices devices{.devices = 1, .host_bandwidth = 400};  // a shard takes 0.25 s
  FleetResult hidden = SimulateFleet(jobs, devices, Lrtf());
  EXPECT_NEAR(hidden.makespan, 100 + 0.25 + 0.25, 1e-9);  // the first fetch and the last eviction
  devices.double_buffering = false;
  FleetResult exposed = SimulateFleet(jobs, devices, Lrtf());
  EXPECT_GT(exposed.makespan, 120);
  EXPECT_GT(exposed.waited, hidden.waited);
}

TEST(FleetSimulateTest, AShardThatRunsAgainStays) {
  // A job of one shard is fetched once and evicted once.
  FleetResult one =
      SimulateFleet({ChainJob(1, 50, 100)}, {.devices = 2, .host_bandwidth = 400}, Lrtf());
  EXPECT_EQ(one.fetched, 100);
  EXPECT_EQ(one.evicted, 100);
  EXPECT_NEAR(one.makespan, 50 + 0.25 + 0.25, 1e-9);
  // Of three shards all but the first are fetched for every run, because F0 follows B0.
  FleetResult three =
      SimulateFleet({ChainJob(3, 10, 100)}, {.devices = 1, .host_bandwidth = 400}, Lrtf());
  EXPECT_EQ(three.fetched, 100 * (1 + 10 * 4));
}

TEST(FleetSimulateTest, BoundariesStayOnTheDevice) {
  JobWork job = ChainJob(3, 10);
  for (ShardRun& run : job.runs) run.boundary_in = run.boundary_out = 400;
  FleetResult alone = SimulateFleet({job}, {.devices = 1, .host_bandwidth = 400}, Lrtf());
  EXPECT_NEAR(alone.makespan, 50 + 1, 1e-9);  // only the first input is copied
  // Two jobs with equal remaining time alternate, so their state passes through the host.
  FleetResult two = SimulateFleet({job, job}, {.devices = 1, .host_bandwidth = 400}, Lrtf());
  EXPECT_GT(two.evicted, 10 * 400);
}

TEST(FleetSimulateTest, JobsChangeRarelyWhereCopiesAreLong) {
  // Two jobs that fit on a device whole, with steps of one second and copies of eight seconds each way. Alternating
  // step by step would take about 16 s per step.
  std::vector<JobWork> jobs = {ChainJob(1, 400, 800), ChainJob(1, 400, 800)};
  FleetResult result = SimulateFleet(jobs, {.devices = 1, .host_bandwidth = 100}, Lrtf());
  EXPECT_LT(result.makespan, 1.5 * 800);
  // Three jobs on two devices have to alternate, which costs time.
  jobs.push_back(ChainJob(1, 400, 800));
  FleetResult three = SimulateFleet(jobs, {.devices = 2, .host_bandwidth = 100}, Lrtf());
  EXPECT_LT(three.makespan, 1.5 * 600);
}

TEST(FleetSimulateTest, HigherPriorityFirst) {
  std::vector<JobWork> jobs = {ChainJob(2, 10), ChainJob(2, 10)};
  jobs[1].priority = 1;
  for (const PolicyDef& policy : AllPolicies()) {
    FleetResult result = SimulateFleet(jobs, {.devices = 1}, policy);
    // The device may have been promised to the first job before anything ran.
    EXPECT_LE(result.finished[1], 31) << policy.name;
    EXPECT_EQ(result.finished[0], 60) << policy.name;
  }
}

TEST(FleetSimulateTest, MoreDevicesThanJobsAndNoSteps) {
  std::vector<JobWork> jobs = {ChainJob(2, 5), ChainJob(1, 0)};
  FleetResult result = SimulateFleet(jobs, {.devices = 7}, Lrtf());
  EXPECT_EQ(result.makespan, 15);
  EXPECT_EQ(result.finished[1], 0);
  EXPECT_EQ(result.moves, 0);
}

// With random jobs, policies and copies, every run happens once and in order, one at a time per device and per job.
TEST(FleetSimulateTest, SchedulesAreSound) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    uint64_t counter = 0;
    auto below = [&](uint64_t bound) { return RandomBelow(bound, seed, 1, counter++); };
    std::vector<JobWork> jobs = RandomFleet(seed).Works();
    for (JobWork& job : jobs) {
      job.steps = static_cast<int64_t>(1 + below(5));
      job.priority = static_cast<int64_t>(below(2));
      for (ShardRun& run : job.runs) {
        run.fetch_bytes = static_cast<int64_t>(below(500));
        run.evict_bytes = static_cast<int64_t>(below(500));
        run.boundary_in = run.boundary_out = static_cast<int64_t>(below(100));
      }
    }
    FleetDevices devices{.devices = static_cast<int64_t>(1 + below(4)),
                         .host_bandwidth = below(2) == 0 ? 0 : 200.0,
                         .host_latency = 0.1,
                         .double_buffering = below(2) == 0};
    const PolicyDef& policy = AllPolicies()[below(AllPolicies().size())];
    FleetResult result = SimulateFleet(jobs, devices, policy);
    std::vector<double> device_end(static_cast<size_t>(devices.devices), 0),
        job_end(jobs.size(), 0), job_work(jobs.size(), 0);
    for (const FleetSpan& span : result.spans) {
      double& on = device_end[static_cast<size_t>(span.device)];
      double& of = job_end[static_cast<size_t>(span.job)];
      EXPECT_GE(span.begin, on) << "seed " << seed;
      EXPECT_GE(span.begin, of) << "seed " << seed;
      on = of = span.end;
      job_work[static_cast<size_t>(span.job)] += span.end - span.begin;
    }
    for (size_t j = 0; j < jobs.size(); ++j) {
      EXPECT_NEAR(job_work[j], TotalSeconds(jobs[j]), 1e-6) << "seed " << seed;
      EXPECT_GE(result.finished[j], job_end[j]);
    }
    EXPECT_GE(result.makespan * (1 + 1e-12), BoundOf(jobs, devices.devices).seconds());
    EXPECT_LE(result.utilisation(), 1 + 1e-12);
  }
}

}  // namespace
}  // namespace heddle
