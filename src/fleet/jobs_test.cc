#include "fleet/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

std::string Refusal(const std::string& text) {
  try {
    JobsFromYaml(text, "jobs.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(JobsTest, ReadsWhatIsThere) {
  FleetSpec fleet = JobsFromYaml(R"(
cluster: dgx-v100:1
devices: 4
host_memory: 400 GiB
defaults: {precision: bf16, optimizer: sgd, steps: 3}
early_stopping: {first: 50, keep: 0.25}
jobs:
  - name: xl
    model: gpt2-xl:seq=512
    epochs: 1.5
    samples: 4688
    batch: [16, 8]
    lr: {from: 1e-5, to: 1e-3, factor: 10}
  - {model: gpt2, steps: 7, priority: 2, optimizer: adam, seed: {from: 1, to: 3, steps: 3}}
)",
                                 "jobs.yaml");
  EXPECT_EQ(fleet.cluster, "dgx-v100:1");
  EXPECT_EQ(fleet.devices, 4);
  EXPECT_EQ(fleet.host_memory, int64_t{400} << 30);
  ASSERT_EQ(fleet.jobs.size(), 9u);
  EXPECT_EQ(fleet.jobs[0].name, "xl batch=16 lr=1e-05");
  EXPECT_EQ(fleet.jobs[1].name, "xl batch=16 lr=0.0001");
  EXPECT_EQ(fleet.jobs[3].name, "xl batch=8 lr=1e-05");
  EXPECT_NEAR(fleet.jobs[5].lr, 1e-3, 1e-12);
  EXPECT_EQ(fleet.jobs[5].optimizer, "sgd");
  EXPECT_EQ(fleet.jobs[5].precision, DType::kBF16);
  EXPECT_EQ(StepsOf(fleet.jobs[0], 16), 440);  // 7032 / 16 = 439.5
  EXPECT_EQ(fleet.jobs[6].name, "job1 seed=1");
  EXPECT_EQ(fleet.jobs[8].seed, 3);
  EXPECT_EQ(fleet.jobs[8].steps, 7);
  EXPECT_EQ(fleet.jobs[8].optimizer, "adam");
  EXPECT_EQ(fleet.halving, (HalvingRule{.first = 50, .keep = 0.25, .factor = 2}));
}

TEST(JobsTest, RefusesInOneLine) {
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, batc: 3}\n"),
            "jobs.yaml:2: jobs[0].batc: unknown key; did you mean 'batch'?");
  EXPECT_EQ(Refusal("jobs:\n  - {steps: 1}\n"),
            "jobs.yaml:2: jobs[0].model: missing: give one, such as gpt2");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2}\n"),
            "jobs.yaml:2: jobs[0]: give either steps or epochs");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, epochs: 1}\n"),
            "jobs.yaml:2: jobs[0].samples: missing: give the number of samples of an epoch");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, lr: much}\n"),
            "jobs.yaml:2: jobs[0].lr: much: must be a number");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, batch: [1, 2.5]}\n"),
            "jobs.yaml:2: jobs[0].batch[1]: 2.5: must be a whole number from 1 to 1e+09");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, optimizer: adamm}\n"),
            "jobs.yaml:2: jobs[0].optimizer: adamm: not one of adamw, adam, momentum, sgd");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, lr: {from: 1, to: 2}}\n"),
            "jobs.yaml:2: jobs[0].lr: a range has either steps or factor");
  EXPECT_EQ(Refusal("jobs:\n  - {model: gpt2, steps: 1, lr: {from: 2, to: 1, steps: 2}}\n"),
            "jobs.yaml:2: jobs[0].lr.to: 1: must not be below 'from'");
  EXPECT_EQ(Refusal("jobs:\n  - {model: {from: 1, to: 2, steps: 2}, steps: 1}\n"),
            "jobs.yaml:2: jobs[0].model: a range: ranges are only for numbers; give a list");
  EXPECT_EQ(
      Refusal(
          "jobs:\n  - {model: gpt2, steps: 1, name: a}\n  - {model: gpt2, steps: 1, name: a}\n"),
      "jobs.yaml:3: jobs[1].name: a: another job has this name; choose another one");
  EXPECT_EQ(
      Refusal("jobs:\n  - model: gpt2\n    steps: 1\n    lr: {from: 0, to: 1, steps: 100}\n"
              "    seed: {from: 0, to: 1000, steps: 11}\n"),
      "jobs.yaml:2: jobs[0]: its grid has 1100 jobs, 1100 with those before it: at most 1000; give "
      "fewer values");
  EXPECT_EQ(Refusal("[1]"), "jobs.yaml:1: jobs: expected a map with a list 'jobs'");
  EXPECT_EQ(Refusal("cluster: x\n"), "jobs.yaml:1: jobs: missing: give a list");
  EXPECT_THAT(Refusal("jobs:\n  - {model: gpt2, steps: 1}\nearly_stopping: {keep: 0.5}\n"),
              ::testing::StartsWith("jobs.yaml:3: early_stopping.first: missing"));
}

TEST(HalvingTest, KeepsTheBest) {
  Halving halving({.first = 10, .keep = 0.5, .factor = 2}, {100, 100, 100, 15});
  EXPECT_EQ(halving.NextReport(0), 10);
  halving.Report(0, 5, 1);  // not the end of a rung
  EXPECT_EQ(halving.VerdictOf(0), HalvingVerdict::kGoOn);
  halving.Report(0, 10, 3);
  halving.Report(1, 10, std::nan(""));
  halving.Report(2, 10, 1);
  EXPECT_EQ(halving.VerdictOf(0), HalvingVerdict::kWait);
  halving.Report(3, 10, 2);
  EXPECT_EQ(halving.VerdictOf(0), HalvingVerdict::kEnd);
  EXPECT_EQ(halving.VerdictOf(1), HalvingVerdict::kEnd);
  EXPECT_EQ(halving.VerdictOf(2), HalvingVerdict::kGoOn);
  EXPECT_EQ(halving.VerdictOf(3), HalvingVerdict::kGoOn);
  EXPECT_EQ(halving.NextReport(2), 20);
  EXPECT_EQ(halving.NextReport(3), 15);
  halving.Report(3, 15, 9);  // at its last step: others do not wait for it, and it is not counted
  halving.Report(2, 20, 1);
  EXPECT_EQ(halving.VerdictOf(2), HalvingVerdict::kGoOn);
}

}  // namespace
}  // namespace heddle
