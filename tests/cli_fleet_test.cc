#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "run_binary.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

RunOutput Fleet(const std::string& yaml, const std::string& arguments = "--simulate") {
  TempFolder folder;
  std::string path = folder / "jobs.yaml";
  std::ofstream(path) << yaml;
  return RunHeddle("fleet " + path + " " + arguments);
}

constexpr const char* kTwoSizes = R"(cluster: dgx-v100:1
devices: 2
defaults: {optimizer: sgd, steps: 20}
jobs:
  - name: small
    model: gpt:layers=4,hidden=512,heads=8,seq=128,vocab=4096
    batch: [8, 16]
    lr: {from: 1e-4, to: 1e-2, factor: 10}
  - {name: wide, model: "vit:layers=4,hidden=512,heads=8", batch: 32, priority: 1}
)";

TEST(CliFleetTest, SimulatesAFileOfJobs) {
  RunOutput run = Fleet(kTwoSizes, "--simulate --json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  ASSERT_EQ(json["jobs"].size(), 7u);
  EXPECT_EQ(json["jobs"][0]["name"], "small batch=8 lr=0.0001");
  EXPECT_EQ(json["jobs"][6]["name"], "wide");
  EXPECT_TRUE(json["jobs"][0]["losses"].is_array());
  EXPECT_TRUE(json["simulated"].get<bool>());
  double makespan = json["makespan_seconds"], bound = json["lower_bound_seconds"];
  EXPECT_GE(makespan, bound);
  EXPECT_LE(makespan, 1.5 * bound);
  double last = 0;
  for (const Json& job : json["jobs"]) last = std::max(last, job["finished_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(last, makespan);
  EXPECT_GT(json["utilisation"].get<double>(), 0.5);
}

TEST(CliFleetTest, ShowsWhoRunsWhat) {
  for (const char* policy : {"lrtf", "longest", "round-robin"}) {
    RunOutput run = Fleet(kTwoSizes, std::string("--simulate --policy ") + policy);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("7 jobs on 2 x v100-sxm2-32gb\n"));
    EXPECT_THAT(run.out, HasSubstr("(simulated)"));
    EXPECT_THAT(run.out, HasSubstr("  g wide "));
    EXPECT_THAT(run.out, HasSubstr("\n  d1   "));
  }
}

TEST(CliFleetTest, SeveralDevicesPerJob) {
  const char* yaml = R"(cluster: dgx-v100:1
jobs:
  - {name: long, model: "gpt:layers=8,hidden=1024,heads=16,seq=512,vocab=4096", batch: 64, steps: 5000}
  - {name: short, model: "vit:layers=4,hidden=512,heads=8", batch: 32, steps: 10}
)";
  RunOutput plain = Fleet(yaml, "--simulate --no-several --json");
  ASSERT_EQ(plain.status, 0) << plain.err;
  RunOutput run = Fleet(yaml, "--simulate --several --json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  double makespan = json["makespan_seconds"];
  double without = json["several"]["makespan_without_seconds"];
  EXPECT_DOUBLE_EQ(without, ParseJson(plain.out, "plain")["makespan_seconds"].get<double>());
  EXPECT_LT(makespan, without / 3);
  EXPECT_GE(makespan, json["lower_bound_seconds"].get<double>());
  EXPECT_FALSE(json["several"]["pieces"].empty());
}

TEST(CliFleetTest, RefusesBadInputBeforeAnythingStarts) {
  struct Bad {
    const char* yaml;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{"", "jobs.yaml:1: the file is empty; see docs/fleet.md"},
        Bad{"cluster: dgx-v100:1\njobs:\n  - {model: gtp2, steps: 1}\n", "jobs.yaml:3: job0: "},
        Bad{"cluster: dgx-v100:1\njobs:\n  - {model: gpt2, steps: 1, data: nothing.txt}\n",
            "jobs.yaml:3: job0: data: nothing.txt: no such file\n"},
        Bad{"jobs:\n  - {model: gpt2, steps: 1}\n", "cluster: missing"},
        Bad{"cluster: dgx-v100:1\ndevices: 9\njobs:\n  - {model: gpt2, steps: 1}\n",
            "devices: 9: the cluster dgx-v100:1 has only 8"},
        Bad{"cluster: dgx-v100:2\njobs:\n  - {model: gpt2, steps: 1}\n",
            "16 devices on several machines: shards are kept in the memory of one machine, which "
            "has 8"},
        Bad{"cluster: dgx-v100:1\njobs:\n  - {model: gpt2, steps: 1, seed: {from: 0, to: 999, "
            "steps: 1000}, lr: [1, 2]}\n",
            "at most 1000"}}) {
    RunOutput run = Fleet(bad.yaml);
    EXPECT_EQ(run.status, 2) << bad.yaml;
    EXPECT_THAT(run.err, HasSubstr(bad.message));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(CliFleetTest, SaysWhatIsMissing) {
  RunOutput device =
      Fleet("cluster: dgx-v100:1\njobs:\n  - {model: gpt2-xl, batch: 4096, steps: 1}\n");
  EXPECT_EQ(device.status, 3);
  EXPECT_THAT(device.err, HasSubstr("job 'job0' does not fit on a device"));
  RunOutput host = Fleet(
      "cluster: dgx-v100:1\nhost_memory: 1 GiB\njobs:\n  - {model: gpt2-xl, batch: 2, steps: 1}\n");
  EXPECT_EQ(host.status, 3);
  EXPECT_THAT(host.err, HasSubstr("of host memory, but there is only 1.00 GiB"));
  EXPECT_THAT(host.err, HasSubstr("too little"));
}

}  // namespace
}  // namespace heddle
