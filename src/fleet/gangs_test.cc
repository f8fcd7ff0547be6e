#include "fleet/gangs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace heddle {
namespace {

using ::testing::ElementsAre;

// Devices that record if two gangs use them at once.
struct Machine {
  std::vector<std::atomic<int>> users = std::vector<std::atomic<int>>(8);
  std::atomic<bool> shared = false;
};

// A job whose steps sleep: `seconds` on one device, seconds / n on n devices.
class SleepingJob : public GangRunner {
 public:
  SleepingJob(Machine& machine, int64_t steps, double seconds)
      : machine_(machine), steps_(steps), seconds_(seconds) {}

  void Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
           const std::function<void(const StepRecord&)>& on_step) override {
    widths.push_back(devices);
    for (int64_t d = first; d < first + devices; ++d) {
      if (machine_.users[static_cast<size_t>(d)]++ != 0) machine_.shared = true;
    }
    while (step_ < steps_) {
      double seconds = seconds_ / static_cast<double>(devices);
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      if (step_ == fails_at) throw std::runtime_error("bad data");
      StepRecord record;
      record.step = step_++;
      record.seconds = seconds;
      on_step(record);
      if (stop) break;
    }
    for (int64_t d = first; d < first + devices; ++d) --machine_.users[static_cast<size_t>(d)];
  }

  int64_t fails_at = -1;
  std::vector<int64_t> widths;  // numbers of devices that it ran on

  // With a predicted curve that is too slow by the factor `off`.
  GangJob Job(double off = 1) {
    GangJob job{.runner = this, .steps = steps_};
    for (int64_t g : {1, 2, 4})
      job.step.points.push_back({g, off * seconds_ / static_cast<double>(g)});
    return job;
  }

 private:
  Machine& machine_;
  int64_t steps_, step_ = 0;
  double seconds_;
};

FleetRun NothingYet(size_t jobs) {
  FleetRun run;
  run.jobs.resize(jobs);
  return run;
}

TEST(GangsTest, OneJobHasAllDevices) {
  Machine machine;
  SleepingJob job(machine, 5, 0.008);
  FleetRun run = NothingYet(1);
  RunGangs({job.Job()}, {.devices = 4}, run);
  EXPECT_THAT(job.widths, ElementsAre(4));
  EXPECT_EQ(run.jobs[0].step, 5);
  EXPECT_GT(run.jobs[0].finished, 0);
  EXPECT_EQ(run.spans.size(), 4u);
  EXPECT_EQ(run.spans[0].devices, 4);
}

TEST(GangsTest, NoDeviceIsSharedAndAllEnd) {
  Machine machine;
  std::vector<std::unique_ptr<SleepingJob>> runners;
  std::vector<GangJob> jobs;
  for (int64_t j = 0; j < 7; ++j) {
    runners.push_back(
        std::make_unique<SleepingJob>(machine, 4 + j, 0.004 * (j % 3 == 0 ? 3.0 : 1.0)));
    jobs.push_back(runners.back()->Job(j % 2 == 0 ? 1 : 4));  // predictions are wrong for some
  }
  FleetRun run = NothingYet(jobs.size());
  RunGangs(jobs, {.devices = 4}, run);
  EXPECT_FALSE(machine.shared);
  for (size_t j = 0; j < jobs.size(); ++j) {
    EXPECT_EQ(run.jobs[j].step, jobs[j].steps);
    EXPECT_GT(run.jobs[j].finished, 0);
    EXPECT_FALSE(run.jobs[j].ended_early);
  }
}

TEST(GangsTest, WhenAJobEndsItsDevicesGoToTheOthers) {
  // Two jobs on two devices each with equal predictions. The first one ends much earlier.
  Machine machine;
  SleepingJob quick(machine, 20, 0.002), slow(machine, 60, 0.02);
  GangJob first = quick.Job(10);
  GangJob second = slow.Job(1.0 / 3);
  for (GangJob* job : {&first, &second})
    job->step.points.pop_back();  // without plans for four devices
  second.step.points.push_back({4, 0.02 / 3 / 4});
  FleetRun run = NothingYet(2);
  RunGangs({first, second}, {.devices = 4}, run);
  EXPECT_THAT(slow.widths, ElementsAre(2, 4));
  EXPECT_EQ(run.switches, 1);
  EXPECT_FALSE(machine.shared);
}

TEST(GangsTest, ASwitchThatCostsMoreThanItGainsIsNotMade) {
  Machine machine;
  SleepingJob quick(machine, 20, 0.002), slow(machine, 60, 0.02);
  GangJob first = quick.Job(10), second = slow.Job(1.0 / 3);
  for (GangJob* job : {&first, &second}) job->step.points.pop_back();
  second.step.points.push_back({4, 0.02 / 3 / 4});
  FleetRun run = NothingYet(2);
  RunGangs({first, second}, {.devices = 4, .switch_seconds = 100}, run);
  EXPECT_THAT(slow.widths, ElementsAre(2));
  EXPECT_EQ(run.switches, 0);
}

TEST(GangsTest, AJobThatThrowsEndsAlone) {
  Machine machine;
  SleepingJob bad(machine, 9, 0.002), good(machine, 9, 0.002);
  bad.fails_at = 3;
  FleetRun run = NothingYet(2);
  RunGangs({bad.Job(), good.Job()}, {.devices = 2}, run);
  EXPECT_EQ(run.jobs[0].error, "bad data");
  EXPECT_EQ(run.jobs[0].step, 3);
  EXPECT_EQ(run.jobs[1].error, "");
  EXPECT_EQ(run.jobs[1].step, 9);
}

// Ends the second job after three steps of the first one, which pauses until the third has ended.
struct Referee : FleetObserver {
  void OnStep(int job, const StepRecord& record, const FleetRun&,
              DispatchControl& control) override {
    if (job != 0 || record.step != 2) return;
    control.End(1);
    control.Pause(0);
  }
  void OnEnd(int job, const FleetRun&, DispatchControl& control) override {
    ended.push_back(job);
    if (job == 2) control.Resume(0);
  }
  std::vector<int> ended;
};

TEST(GangsTest, ObserversEndAndPauseJobs) {
  Machine machine;
  SleepingJob a(machine, 6, 0.002), b(machine, 1000, 0.004), c(machine, 40, 0.002);
  FleetRun run = NothingYet(3);
  Referee referee;
  std::vector<GangJob> jobs = {a.Job(), b.Job(), c.Job()};
  for (GangJob& job : jobs) job.step.points.resize(1);  // one device each
  RunGangs(jobs, {.devices = 4}, run, &referee);
  EXPECT_TRUE(run.jobs[1].ended_early);
  EXPECT_LT(run.jobs[1].step, 1000);
  EXPECT_EQ(run.jobs[0].step, 6);
  EXPECT_FALSE(run.jobs[0].ended_early);
  EXPECT_THAT(referee.ended, ElementsAre(1, 2, 0));
}

TEST(GangsTest, WhatIsStoppedIsNotOver) {
  Machine machine;
  SleepingJob a(machine, 1000, 0.002), b(machine, 1000, 0.002);
  std::atomic<bool> stop = false;
  FleetRun run = NothingYet(2);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
  });
  RunGangs({a.Job(), b.Job()}, {.devices = 2, .stop = &stop}, run);
  later.join();
  for (const DispatchedJob& job : run.jobs) {
    EXPECT_LT(job.step, 1000);
    EXPECT_EQ(job.finished, 0);
  }
}

}  // namespace
}  // namespace heddle
