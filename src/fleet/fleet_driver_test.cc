#include "fleet/fleet_driver.h"

#include <gtest/gtest.h>

#include <memory>

#include "program/testing.h"

namespace heddle {
namespace {

// A job without training, with the same loss at every step.
class FakeJob : public JobRunner, private ShardRunner {
 public:
  FakeJob(int visits, double loss) : visits_(visits), loss_(loss) {}

  ShardRunner& Shards() override { return *this; }
  void LetGo() override { let_go = true; }
  void Run(int64_t, int64_t, const std::atomic<bool>&,
           const std::function<void(const StepRecord&)>&) override {
    ran_on_several = true;
  }
  int64_t first_step() const override { return 0; }
  const std::vector<double>& losses() const override { return losses_; }
  void Add(const StepRecord& record) override { losses_.push_back(record.loss); }

  bool let_go = false, ran_on_several = false;

 private:
  int visits() const override { return visits_; }
  void Prefetch(int, int) override {}
  std::optional<StepRecord> Run(int64_t step, int visit, int) override {
    if (visit + 1 < visits_) return std::nullopt;
    StepRecord record;
    record.step = step;
    record.loss = loss_;
    return record;
  }
  void Leave() override {}
  void Finish() override {}

  int visits_;
  double loss_;
  std::vector<double> losses_;
};

class FleetDriverTest : public testing::Test {
 protected:
  static constexpr int64_t kSteps = 8;

  FleetRun Drive(const std::atomic<bool>* interrupted = nullptr) {
    for (int j = 0; j < 4; ++j) {
      JobSpec& job = spec_.jobs.emplace_back();
      job.name = fmt::format("job {}", j);
      job.model = "small";
      job.steps = kSteps;
    }
    spec_.devices = 2;
    options_.jobs = "jobs.yaml";
    options_.cluster = "dgx-v100:1";
    options_.several = false;
    machine_ = MachineOf(options_, spec_);
    prepared_ = std::make_unique<PreparedFleet>(
        options_, spec_, machine_, [](const JobSpec&) { return SmallModel(4); },
        [](const std::string&) {});
    std::vector<JobRunner*> runners;
    for (size_t j = 0; j < spec_.jobs.size(); ++j) {
      int visits = static_cast<int>(prepared_->works()[j].runs.size());
      jobs_.push_back(std::make_unique<FakeJob>(visits, static_cast<double>(j)));
      runners.push_back(jobs_.back().get());
    }
    FleetDriver driver(*prepared_, runners,
                       {.policy = AllPolicies().front(),
                        .interrupted = interrupted,
                        .on_step = [&](const FleetRun&) { ++steps_; },
                        .on_end = [&](int, const FleetRun&) { ++ended_; }});
    return driver.Run();
  }

  FleetSpec spec_;
  FleetOptions options_;
  FleetMachine machine_;
  std::unique_ptr<PreparedFleet> prepared_;
  std::vector<std::unique_ptr<FakeJob>> jobs_;
  int64_t steps_ = 0, ended_ = 0;
};

TEST_F(FleetDriverTest, RunsAllJobsToTheirEnd) {
  FleetRun run = Drive();
  for (size_t j = 0; j < jobs_.size(); ++j) {
    EXPECT_EQ(run.jobs[j].step, kSteps);
    EXPECT_GT(run.jobs[j].finished, 0);
    EXPECT_EQ(jobs_[j]->losses().size(), static_cast<size_t>(kSteps));
    EXPECT_FALSE(jobs_[j]->ran_on_several);
  }
  EXPECT_EQ(steps_, 4 * kSteps);
  EXPECT_EQ(ended_, 4);
}

// Of four jobs, the two with the lowest losses continue after 2 steps, and one of them after 4.
TEST_F(FleetDriverTest, EndsJobsEarlyByTheirLosses) {
  spec_.halving = HalvingRule{.first = 2, .keep = 0.5, .factor = 2};
  FleetRun run = Drive();
  EXPECT_EQ(run.jobs[0].step, kSteps);
  EXPECT_EQ(run.jobs[1].step, 4);
  EXPECT_EQ(run.jobs[2].step, 2);
  EXPECT_EQ(run.jobs[3].step, 2);
  EXPECT_FALSE(run.jobs[0].ended_early);
  for (size_t j : {1, 2, 3}) EXPECT_TRUE(run.jobs[j].ended_early);
}

TEST_F(FleetDriverTest, JobsStandStillWhenItIsInterrupted) {
  std::atomic<bool> interrupted = true;
  FleetRun run = Drive(&interrupted);
  for (const DispatchedJob& job : run.jobs) {
    EXPECT_LT(job.step, kSteps);
    EXPECT_EQ(job.finished, 0);
  }
}

}  // namespace
}  // namespace heddle
