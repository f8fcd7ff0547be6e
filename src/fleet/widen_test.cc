#include "fleet/widen.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

JobWork OneShard(int64_t steps) {
  JobWork job{.name = "job", .steps = steps};
  job.runs = {{.shard = 0, .backward = true, .seconds = 1}};
  return job;
}

JobCurve HalvedBy(const JobWork& job, std::vector<int64_t> counts) {
  JobCurve curve{"job", {}};
  for (int64_t devices : counts) {
    curve.points.push_back({devices, TotalSeconds(job) / static_cast<double>(devices)});
  }
  return curve;
}

TEST(WidenTest, TheLongJobIsWidenedWhenOthersHaveEnded) {
  // Three jobs of 100 s and one of 400 s on 4 devices. In shards they take 400 s; the work bound is 175 s.
  std::vector<JobWork> jobs = {OneShard(100), OneShard(100), OneShard(100), OneShard(400)};
  std::vector<JobCurve> curves = {{"a", {}}, {"b", {}}, {"c", {}}, HalvedBy(jobs[3], {2, 4})};
  WideFleet wide = WidenFleet(jobs, {.devices = 4}, *FindPolicy("lrtf"), curves, 1);
  EXPECT_DOUBLE_EQ(wide.bound, 175);
  // In shards until 100 s, then the remaining 300 s on four devices, with one second for the switch.
  EXPECT_NEAR(wide.makespan, 100 + 75 + 1, 1);
  EXPECT_NEAR(wide.from, 100, 1);
  ASSERT_FALSE(wide.several.pieces.empty());
  EXPECT_EQ(wide.several.pieces[0].job, 3);
  EXPECT_EQ(wide.several.pieces[0].devices, 4);
  FleetResult both = Combined(wide);
  EXPECT_EQ(both.finished[3], wide.makespan);
  EXPECT_NEAR(both.busy[0] + both.busy[1] + both.busy[2] + both.busy[3], 700, 5);
}

TEST(WidenTest, ShardsStayWhereNothingIsGained) {
  std::vector<JobWork> jobs(8, OneShard(50));
  std::vector<JobCurve> curves(8, JobCurve{});
  WideFleet wide = WidenFleet(jobs, {.devices = 4}, *FindPolicy("lrtf"), curves, 1);
  EXPECT_EQ(wide.makespan, 100);
  EXPECT_EQ(wide.from, wide.makespan);
  EXPECT_TRUE(wide.several.pieces.empty());
}

// The work done until some time and the remaining work add up to the whole.
TEST(WidenTest, RunsUntilAMoment) {
  std::vector<JobWork> jobs = {OneShard(10), OneShard(20), OneShard(30)};
  FleetDevices devices{.devices = 2, .until = 12.5};
  FleetResult result = SimulateFleet(jobs, devices, *FindPolicy("lrtf"));
  EXPECT_EQ(result.makespan, 13);  // running shard runs end
  double done = result.busy[0] + result.busy[1];
  double left = result.remaining[0] + result.remaining[1] + result.remaining[2];
  EXPECT_EQ(done, 26);
  EXPECT_EQ(done + left, 60);
}

}  // namespace
}  // namespace heddle
