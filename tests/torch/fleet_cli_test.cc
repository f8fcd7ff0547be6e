// Real runs of heddle fleet from the command line: the losses of every job alone, caps, failures, early stopping and
// resuming.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../run_binary.h"
#include "base/json.h"

namespace heddle {
namespace {

constexpr const char* kDeepGpt = "gpt:layers=12,hidden=48,heads=4,seq=16,vocab=128,batch=4";
constexpr const char* kSmallLlama =
    "llama:layers=6,hidden=48,heads=4,kv_heads=4,ffn=96,seq=16,vocab=128,batch=4";

std::string WriteJobs(const TempFolder& folder, const std::string& text) {
  std::string path = folder / "jobs.yaml";
  std::ofstream(path) << text;
  return path;
}

std::string TwelveJobs() {
  std::string text = "cluster: local:2\ndefaults: {steps: 4}\njobs:\n";
  for (const char* model : {kDeepGpt, kSmallLlama}) {
    text += std::string("  - name: ") + (model == kDeepGpt ? "gpt" : "llama") +
            "\n    model: " + model +
            "\n    optimizer: [adamw, momentum]\n    lr: [0.001, 0.003, 0.01]\n";
  }
  return text;
}

Json RunFleetJson(const std::string& arguments) {
  RunOutput run = RunHeddle("fleet " + arguments + " --json");
  EXPECT_EQ(run.status, 0) << run.err;
  return ParseJson(run.out, "");
}

TEST(FleetCli, LossesAreThoseOfJobsAlone) {
  TempFolder folder;
  Json fleet = RunFleetJson(WriteJobs(folder, TwelveJobs()) + " --memory-limit 1.5MiB --threads 1");
  ASSERT_EQ(fleet["jobs"].size(), 12u);
  int compared = 0;
  for (const Json& job : fleet["jobs"]) {
    std::string name = job["name"];
    SCOPED_TRACE(name);
    auto value = [&](const std::string& key) {
      size_t at = name.find(key + "=") + key.size() + 1;
      return name.substr(at, name.find(' ', at) - at);
    };
    EXPECT_GE(job["visits"].get<int>(), 5);  // the cap is far below the memory of the whole model
    if (value("lr") != (value("optimizer") == "adamw" ? "0.003" : "0.01"))
      continue;  // one of three jobs
    std::string model = name.rfind("gpt", 0) == 0 ? kDeepGpt : kSmallLlama;
    ++compared;
    RunOutput alone = RunHeddle("train " + model + " --steps 4 --threads 1 --json --optimizer " +
                                value("optimizer") + " --lr " + value("lr"));
    ASSERT_EQ(alone.status, 0) << alone.err;
    Json expected = ParseJson(alone.out, "")["losses"];
    ASSERT_EQ(job["losses"].size(), expected.size());
    for (size_t s = 0; s < expected.size(); ++s) {
      double want = expected[s];
      EXPECT_NEAR(job["losses"][s].get<double>(), want, 1e-6 * std::abs(want)) << "step " << s;
    }
  }
  EXPECT_EQ(compared, 4);
  for (const Json& device : fleet["per_device"]) {
    EXPECT_LE(device["peak_memory_bytes"], device["memory_limit_bytes"]);
    EXPECT_GT(device["busy_seconds"], 0);
  }
  EXPECT_GE(fleet["makespan_seconds"], fleet["lower_bound_seconds"]);
}

// Compares the losses of jobs in `fleet` with those of the same model trained alone with the lr of each job.
void ExpectLossesAlone(const Json& fleet, const std::string& model,
                       const std::vector<std::string>& lrs) {
  ASSERT_EQ(fleet["jobs"].size(), lrs.size());
  for (size_t j = 0; j < lrs.size(); ++j) {
    const Json& job = fleet["jobs"][j];
    RunOutput alone = RunHeddle("train " + model + " --threads 1 --json --steps " +
                                std::to_string(job["losses"].size()) + " --lr " + lrs[j]);
    ASSERT_EQ(alone.status, 0) << alone.err;
    Json expected = ParseJson(alone.out, "")["losses"];
    for (size_t s = 0; s < expected.size(); ++s) {
      double want = expected[s];
      // Several devices add in another order, and rounding errors grow with each step.
      double allowed = (s < 10 ? 3e-6 : 3e-5) * std::abs(want);
      EXPECT_NEAR(job["losses"][s].get<double>(), want, allowed) << job["name"] << " step " << s;
    }
  }
  for (const Json& device : fleet["per_device"])
    EXPECT_LE(device["peak_memory_bytes"], device["memory_limit_bytes"]);
}

// If host memory allows, shards keep activations on the host until backward.
TEST(FleetCli, KeepsWhatBackwardNeeds) {
  TempFolder folder;
  std::string model = "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128,batch=8";
  std::string jobs = WriteJobs(
      folder, "cluster: local:2\njobs:\n  - {name: a, steps: 4, lr: [0.001, 0.01], model: '" +
                  model + "'}\n");
  std::string arguments = jobs + " --threads 1 --memory-limit 6MiB";
  Json simulated = RunFleetJson(arguments + " --simulate");
  EXPECT_GT(simulated["jobs"][0]["kept_blocks"], 0);
  Json fleet = RunFleetJson(arguments);
  EXPECT_GE(fleet["jobs"][0]["visits"], 3);
  ExpectLossesAlone(fleet, model, {"0.001", "0.01"});
}

TEST(FleetCli, FewerJobsThanDevicesHaveSeveral) {
  TempFolder folder;
  std::string model = "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128,batch=8";
  std::string jobs = WriteJobs(
      folder, "cluster: local:2\njobs:\n  - {name: a, steps: 8, model: '" + model + "'}\n");
  Json fleet = RunFleetJson(jobs + " --threads 1 --memory-limit 6MiB");
  EXPECT_EQ(fleet["jobs"][0]["devices"], 2);
  ExpectLossesAlone(fleet, model, {"0.001"});
  Json shards = RunFleetJson(jobs + " --threads 1 --memory-limit 6MiB --no-several");
  EXPECT_EQ(shards["jobs"][0]["devices"], 1);
}

TEST(FleetCli, ALongJobHasAllDevicesWhenOthersHaveEnded) {
  TempFolder folder;
  std::string model = "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128,batch=2";
  std::string jobs = WriteJobs(folder, "cluster: local:2\ndefaults: {model: '" + model +
                                           "'}\njobs:\n  - {name: long, steps: 60}\n  - {name: "
                                           "short, steps: 6, lr: [0.001, 0.01]}\n");
  Json fleet = RunFleetJson(jobs + " --several --switch 0.01 --threads 1 --memory-limit 4MiB");
  EXPECT_EQ(fleet["jobs"][0]["devices"], 2);
  EXPECT_GE(fleet["jobs"][0]["visits"], 5);  // it ran in shards before
  ExpectLossesAlone(fleet, model, {"0.001", "0.001", "0.01"});
}

TEST(FleetCli, EarlyStoppingOfJobsOnSeveralDevices) {
  TempFolder folder;
  std::string jobs = WriteJobs(
      folder,
      "cluster: local:2\nearly_stopping: {first: 2, keep: 0.5}\njobs:\n  - name: j\n    model: "
      "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128,batch=8\n    steps: 8\n    lr: [0.001, "
      "0.003, 0.01, 0.0001]\n");
  Json fleet = RunFleetJson(jobs + " --several --switch 0 --threads 1 --memory-limit 6MiB");
  Json shards = RunFleetJson(jobs + " --threads 1 --memory-limit 6MiB");
  size_t on_two = 0;
  for (size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(fleet["jobs"][j]["losses"].size(), shards["jobs"][j]["losses"].size());
    EXPECT_EQ(fleet["jobs"][j]["ended_early"], shards["jobs"][j]["ended_early"]);
    on_two += fleet["jobs"][j]["devices"] == 2 ? 1 : 0;
  }
  EXPECT_GT(on_two, 0u);
}

TEST(FleetCli, AJobThatFailsEndsAlone) {
  TempFolder folder;
  std::string jobs =
      WriteJobs(folder, std::string("cluster: local:2\njobs:\n  - name: good\n    model: ") +
                            kDeepGpt + "\n    steps: 5\n  - name: bad\n    model: " + kDeepGpt +
                            "\n    steps: 5\n    lr: 1000\n    optimizer: sgd\n");
  RunOutput run = RunHeddle("fleet " + jobs + " --threads 1 --json");
  EXPECT_EQ(run.status, 1);
  Json json = ParseJson(run.out, "");
  EXPECT_EQ(json["jobs"][0]["losses"].size(), 5u);
  EXPECT_FALSE(json["jobs"][0].contains("error"));
  EXPECT_NE(json["jobs"][1].value("error", "").find("loss"), std::string::npos) << run.out;
  EXPECT_NE(run.err.find("1 of 2 jobs failed"), std::string::npos) << run.err;
}

TEST(FleetCli, GoesOnFromItsCheckpointsAndStopsTheWorst) {
  TempFolder folder;
  std::string jobs =
      WriteJobs(folder, std::string("cluster: local:2\nearly_stopping: {first: 2, keep: "
                                    "0.5}\njobs:\n  - name: j\n    model: ") +
                            kDeepGpt + "\n    steps: 6\n    lr: [0.001, 0.003, 0.01, 0.0001]\n");
  Json whole = RunFleetJson(jobs + " --threads 1");
  size_t early = 0;
  for (const Json& job : whole["jobs"]) early += job["ended_early"].get<bool>() ? 1 : 0;
  EXPECT_EQ(early, 3u) << whole.dump();
  std::string saved = " --threads 1 --checkpoint-every 1 --checkpoint " + folder / "saved";
  Json first = RunFleetJson(jobs + saved), again = RunFleetJson(jobs + saved);
  for (size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(whole["jobs"][j]["losses"], first["jobs"][j]["losses"]);
    EXPECT_EQ(whole["jobs"][j]["losses"], again["jobs"][j]["losses"]);
  }
}

// Checkpoints of jobs with other settings, and folders of other jobs, are rejected.
TEST(FleetCli, CheckpointsOfOtherJobsAreRefused) {
  TempFolder folder;
  auto jobs = [&](const std::string& optimizer) {
    return WriteJobs(folder,
                     "cluster: local:2\njobs:\n  - name: j\n    steps: 2\n    lr: [0.001, 0.003]\n"
                     "    optimizer: " +
                         optimizer + "\n    model: " + kDeepGpt + "\n");
  };
  std::string saved = folder / "saved", flags = " --threads 1 --checkpoint " + saved;
  Json first = RunFleetJson(jobs("adamw") + flags);
  ExpectRefused("fleet " + jobs("sgd") + flags, {"jobs.yaml:", "optimizer was adamw and is sgd",
                                                 "--override", "; also rejected: j lr=0.003"});
  RunOutput forced = RunHeddle("fleet " + folder / "jobs.yaml" + flags + " --override");
  EXPECT_EQ(forced.status, 0) << forced.err;
  // Finished steps count with their losses. Damaged files beside them do not matter.
  std::ofstream(saved + "/00-j_lr=0.001.losses") << "0 damaged";
  EXPECT_EQ(RunFleetJson(jobs("adamw") + flags)["jobs"][0]["losses"], first["jobs"][0]["losses"]);
  std::filesystem::rename(saved + "/00-j_lr=0.001", saved + "/x");
  std::filesystem::rename(saved + "/01-j_lr=0.003", saved + "/00-j_lr=0.001");
  std::filesystem::rename(saved + "/x", saved + "/01-j_lr=0.003");
  ExpectRefused("fleet " + folder / "jobs.yaml" + flags,
                {"job was j lr=0.003 and is j lr=0.001", "lr was 0.003 and is 0.001"});
}

TEST(FleetCli, MistakesAreRefusedBeforeAnythingRuns) {
  TempFolder folder;
  std::string head = "cluster: local:2\njobs:\n  - name: a\n    steps: 1\n    model: ";
  ExpectRefused("fleet " + WriteJobs(folder, head + "gtp2\n"), {"jobs.yaml:", "gtp2"});
  ExpectRefused(
      "fleet " + WriteJobs(folder, head + std::string(kDeepGpt) + "\n    data: none.txt\n"),
      {"jobs.yaml:", "none.txt"});
  RunOutput small = RunHeddle("fleet " + WriteJobs(folder, head + std::string(kDeepGpt) + "\n") +
                              " --memory-limit 10KiB");
  EXPECT_EQ(small.status, 3) << small.err;
  EXPECT_NE(small.err.find("too little"), std::string::npos) << small.err;
  std::string host = "host_memory: 1MB\n" + head + std::string(kDeepGpt) + "\n";
  RunOutput short_of = RunHeddle("fleet " + WriteJobs(folder, host) + " --memory-limit 1.5MiB");
  EXPECT_EQ(short_of.status, 3) << short_of.err;
  EXPECT_NE(short_of.err.find("host memory"), std::string::npos) << short_of.err;
  // With memory-mapped files it runs.
  RunOutput mapped =
      RunHeddle("fleet " + folder / "jobs.yaml" + " --memory-limit 1.5MiB --spill " + folder / ".");
  EXPECT_EQ(mapped.status, 0) << mapped.err;
}

}  // namespace
}  // namespace heddle
