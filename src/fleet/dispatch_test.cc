#include "fleet/dispatch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace heddle {
namespace {

// A job with three visits per step. It records whether it is on a device and fails where it is told to.
class FakeShards : public ShardRunner {
 public:
  int visits() const override { return 3; }
  int64_t first_step() const override { return 0; }
  void Prefetch(int visit, int device) override {
    Come(device);
    if (visit == prefetch_fails) throw std::runtime_error("no memory");
  }
  std::optional<StepRecord> Run(int64_t step, int visit, int device) override {
    Come(device);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (step == fails_at && visit == 1) throw std::runtime_error("bad data");
    if (visit < 2) return std::nullopt;
    StepRecord record;
    record.step = step;
    return record;
  }
  void Leave() override { where = -1; }
  void Finish() override { finished = true; }

  int64_t fails_at = -1;
  int prefetch_fails = -1;
  std::atomic<int> where = -1;
  std::atomic<bool> twice = false, finished = false;

 private:
  void Come(int device) {
    int before = where.exchange(device);
    if (before >= 0 && before != device) twice = true;
  }
};

std::vector<DispatchJob> Jobs(std::vector<FakeShards>& runners, int64_t steps) {
  std::vector<DispatchJob> jobs;
  for (FakeShards& runner : runners) jobs.push_back({.runner = &runner, .steps = steps});
  return jobs;
}

TEST(DispatchTest, EveryJobIsOnOneDeviceAtATime) {
  std::vector<FakeShards> runners(5);
  FleetRun run = Dispatch(Jobs(runners, 20), {.devices = 3}, *FindPolicy("round-robin"));
  for (size_t j = 0; j < runners.size(); ++j) {
    EXPECT_EQ(run.jobs[j].step, 20);
    EXPECT_EQ(run.jobs[j].records.size(), 20u);
    EXPECT_FALSE(runners[j].twice);
    EXPECT_TRUE(runners[j].finished);
    EXPECT_EQ(runners[j].where, -1);
  }
}

TEST(DispatchTest, WhatFailsLeavesItsDevice) {
  for (bool buffering : {true, false}) {
    std::vector<FakeShards> runners(4);
    runners[1].fails_at = 3;
    runners[2].prefetch_fails = 2;
    FleetRun run = Dispatch(Jobs(runners, 10), {.devices = 2, .double_buffering = buffering},
                            *FindPolicy("round-robin"));
    EXPECT_EQ(run.jobs[1].error, "bad data");
    EXPECT_EQ(run.jobs[1].step, 3);
    EXPECT_EQ(run.jobs[2].error, buffering ? "no memory" : "");
    for (const FakeShards& runner : runners) EXPECT_EQ(runner.where, -1);
    for (size_t j : {size_t{0}, size_t{3}}) {
      EXPECT_EQ(run.jobs[j].error, "");
      EXPECT_EQ(run.jobs[j].step, 10);
    }
  }
}

// Pauses all jobs except the first after their first step.
struct Pauser : FleetObserver {
  void OnStep(int job, const StepRecord&, const FleetRun&, DispatchControl& control) override {
    if (job != 0) control.Pause(job);
    if (job == 0 && ++steps == 5) stop = true;
  }
  void OnEnd(int, const FleetRun&, DispatchControl&) override { ++ended; }
  int steps = 0, ended = 0;
  std::atomic<bool> stop = false;
};

TEST(DispatchTest, WhatIsStoppedStandsBetweenTwoStepsAndIsNotOver) {
  std::vector<FakeShards> runners(4);
  Pauser pauser;
  FleetRun run = Dispatch(Jobs(runners, 1000), {.devices = 2, .stop = &pauser.stop},
                          *FindPolicy("lrtf"), &pauser);
  EXPECT_EQ(run.jobs[0].step, 5);
  EXPECT_EQ(pauser.ended, 0);
  for (size_t j = 0; j < runners.size(); ++j) {
    EXPECT_EQ(run.jobs[j].finished, 0);
    EXPECT_GT(run.jobs[j].remaining_seconds, 0);
    EXPECT_TRUE(runners[j].finished);  // Finish was called, which saves
    EXPECT_EQ(runners[j].where, -1);
  }
}

}  // namespace
}  // namespace heddle
