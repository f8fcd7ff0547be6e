// heddle plan from the user's view.
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/testing.h"
#include "cli/plan_args.h"
#include "cli_files.h"
#include "run_binary.h"

namespace heddle {
namespace {

TEST(Cli, PlanPrintsOneScreenAndOneJsonObject) {
  TempFolder folder;
  std::string arguments =
      "plan " + kGpt +
      " --cluster local:8 --dp 2 --tp 2 --pp 2 --microbatches 2 --zero 1 --searcher expert";
  RunOutput run = RunHeddle(arguments + " -o " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("mesh         dp 2 x tp 2 x pp 2\n"), std::string::npos) << run.out;
  EXPECT_NE(
      run.out.find("tp 2: attention by heads, linear layers by columns and rows, norms whole"),
      std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("4..7  dp 2 x tp 2"), std::string::npos) << run.out;
  Json plan = ParseJson(Slurp(folder / "plan.json"), "plan.json");
  EXPECT_EQ(plan["heddle_plan"], 1);
  EXPECT_EQ(plan["stages"].size(), 2u);

  Json json = ParseJson(RunHeddle(arguments + " --json").out, "output");
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["searcher"], "expert");
  EXPECT_EQ(
      json["degrees"],
      ParseJson(
          R"({"dp": 2, "tp": 2, "pp": 2, "cp": 1, "ep": 1, "sp": false, "zero": 1, "offload": "none",
                                           "microbatches": 2, "recompute": "none"})",
          "expected"));
  double share = 0;
  for (const Json& stage : json["stages"]) share += stage["flops_share"].get<double>();
  EXPECT_NEAR(share, 1, 1e-12);
  EXPECT_NE(RunHeddle("plan --help").out.find("Examples:"), std::string::npos);
}

TEST(Cli, SyncIsAPolicyOfTheExpert) {
  TempFolder folder;
  std::string plan = "plan " + kGpt + " --cluster local:2 --dp 2 --sync ";
  for (std::string sync : {"factors", "server"}) {
    RunOutput run = RunHeddle(plan + sync + " -o " + folder / "plan.json");
    ASSERT_EQ(run.status, 0) << run.err;
    Json stage = ParseJson(Slurp(folder / "plan.json"), "plan.json")["stages"][0];
    EXPECT_GT(stage["sync"][sync].size(), 2u);
    EXPECT_EQ(RunHeddle("simulate " + folder / "plan.json").status, 0);
  }
  ExpectRefused(plan + "factor", {"--sync factor", "did you mean 'factors'?"});
  ExpectRefused(plan + "factors --zero 2", {"sync factors with zero 2", "use zero 0 or 1"});
  ExpectRefused(plan + "factors --searcher auto", {"--sync", "expert"});
}

TEST(Cli, TheExpertWithoutDegreesIsDataParallel) {
  std::string plan = "plan " + kGpt + " --searcher expert --json --cluster ";
  Json json = ParseJson(RunHeddle(plan + "local:3").out, "output");
  EXPECT_EQ(json["degrees"]["dp"], 2);  // of a batch of 4
  json = ParseJson(RunHeddle(plan + "local:8 --tp 2").out, "output");
  EXPECT_EQ(json["degrees"]["dp"], 4);
  EXPECT_EQ(json["devices"], 8);
}

TEST(Cli, PlansAreTheSameEveryTimeAndReadBack) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "plans");
  WriteText(folder / "copy.heddle", "");
  ASSERT_EQ(RunHeddle("export " + kGpt + " --batch 8 -o " + folder / "copy.heddle").status, 0);
  std::string arguments =
      "plan " + folder / "copy.heddle" + " --cluster local:8 --tp 2 --pp 2 --batch 4 -o ";
  ASSERT_EQ(RunHeddle(arguments + folder / "plans/a.json").status, 0);
  ASSERT_EQ(RunHeddle(arguments + folder / "plans/b.json").status, 0);
  EXPECT_EQ(Slurp(folder / "plans/a.json"), Slurp(folder / "plans/b.json"));

  LoadedPlan loaded = LoadPlan(folder / "plans/a.json");
  EXPECT_EQ(loaded.plan.model.source, "../copy.heddle");
  EXPECT_EQ(BatchSize(loaded.model), 4);
  EXPECT_EQ(loaded.plan.stages.size(), 2u);
  EXPECT_THROW(LoadPlan(folder / "plans/a.json", kMlp), InputError);
  EXPECT_THROW(LoadPlan(folder / "copy.heddle"), InputError);
}

TEST(Cli, PlansSayTheirPrecision) {
  for (std::string precision : {"f32", "bf16", "f16", "fp8"}) {
    RunOutput run =
        RunHeddle("plan " + kGpt + " --cluster dgx-h100 --json --precision " + precision);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(ParseJson(run.out, "output")["precision"], precision);
  }
}

// The mesh and the degrees are as requested, independent of what the axis named tp splits.
TEST(Cli, PlansSayTheMeshThatWasAskedFor) {
  std::string plan = "plan gpt2:layers=2 --cluster dgx-h100:1 --tp 2 --dp 4";
  RunOutput run = RunHeddle(plan);
  ASSERT_EQ(run.status, 0) << run.err;
  for (std::string part : {"mesh         dp 4 x tp 2 x pp 1\n", "dp 4: batch\n", " tp 2: "}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part << run.out;
  }
  Json json = ParseJson(RunHeddle(plan + " --json").out, "output");
  EXPECT_EQ(json["degrees"]["dp"], 4);
  EXPECT_EQ(json["degrees"]["tp"], 2);
  ASSERT_EQ(json["meshes"].size(), 1u);
  EXPECT_EQ(json["meshes"][0]["first_device"], 0);
  EXPECT_EQ(json["meshes"][0]["devices"], 8);
  EXPECT_EQ(json["meshes"][0]["axes"][1]["name"], "tp");
  EXPECT_FALSE(json["meshes"][0]["axes"][1]["splits"].get<std::string>().empty());
}

TEST(Cli, HelpShowsNoDefaultOfWhatIsSearched) {
  std::vector<std::string> commands = {"plan", "space"};
  if (std::filesystem::exists(std::string(HEDDLE_BINARY) + "-torch")) commands.push_back("train");
  for (const std::string& command : commands) {
    std::string help = RunHeddle(command + " --help").out;
    for (std::string option : {"--dp", "--tp", "--pp", "--cp", "--ep", "--schedule", "--chunks",
                               "--microbatches", "--zero", "--recompute", "--offload", "--sync"}) {
      size_t begin = help.find("  " + option + " ");
      ASSERT_NE(begin, std::string::npos) << command << option;
      std::string line = help.substr(begin, help.find("\n  -", begin) - begin);
      EXPECT_EQ(line.find('='), std::string::npos) << command << line;
      EXPECT_EQ(line.find("default"), std::string::npos) << command << line;
    }
  }
}

// Devices with fast f16 and without bf16 compute in f16 with loss scaling. Other GPUs compute in bf16, and CPUs in f32.
TEST(Cli, AutoPrecisionIsTheFastestThatTrains) {
  TempFolder folder;
  std::string model = "plan gpt2:layers=2 --batch 8 --cluster ";
  for (const auto& [cluster, precision] :
       std::map<std::string, std::string>{{"dgx-v100:1", "f16"},
                                          {"dgx-a100:1", "bf16"},
                                          {"local:2", "f32"},
                                          {"1080tix2:1", "f32"}}) {
    Json json = ParseJson(RunHeddle(model + cluster + " --json").out, "output");
    EXPECT_EQ(json["precision"], precision) << cluster;
    EXPECT_EQ(json["precision_auto"], true);
  }
  RunOutput run = RunHeddle(model + "dgx-v100:1 -o " + folder / "plan.json");
  EXPECT_NE(run.out.find("f16 (by --precision auto"), std::string::npos) << run.out;
  EXPECT_EQ(LoadPlan(folder / "plan.json").plan.precision.compute, DType::kF16);
  run = RunHeddle(model + "dgx-v100:1 --precision f16");
  EXPECT_EQ(run.out.find("auto:"), std::string::npos) << run.out;
  // Weights that are offloaded to the host are not trained in f16.
  Json spilled = ParseJson(RunHeddle(model + "dgx-v100:1 --offload all --json").out, "output");
  EXPECT_EQ(spilled["precision"], "f32");
}

TEST(Cli, MemoryOfF16IsThatOfBf16) {
  std::string plan =
      "plan gpt2:layers=2 --cluster dgx-h100:1 --tp 2 --dp 4 --zero 1 --json "
      "--searcher expert --precision ";
  Json f16 = ParseJson(RunHeddle(plan + "f16").out, "output");
  Json bf16 = ParseJson(RunHeddle(plan + "bf16").out, "output");
  EXPECT_EQ(f16["memory"], bf16["memory"]);
  EXPECT_EQ(f16["reserved_memory_bytes"], bf16["reserved_memory_bytes"]);
}

TEST(Cli, PlansSayWhatStatisticsOfTheBatchCost) {
  std::string plan = "plan resnet50 --cluster dgx-h100:1 --dp 8 --searcher expert";
  RunOutput run = RunHeddle(plan);
  for (std::string part : {"--batch-statistics local", "which changes the result"}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << run.out;
  }
  Json json = ParseJson(RunHeddle(plan + " --json").out, "output");
  Json local = ParseJson(RunHeddle(plan + " --batch-statistics local --json").out, "output");
  EXPECT_EQ(json["local_batch_statistics"]["step_seconds"], local["step_seconds"]);
  EXPECT_GT(json["local_batch_statistics"]["share"], 0.05);
  EXPECT_TRUE(local["local_batch_statistics"].is_null());
  EXPECT_TRUE(ParseJson(RunHeddle("plan " + kGpt + " --cluster local:2 --json").out,
                        "output")["local_batch_statistics"]
                  .is_null());
}

TEST(Cli, PlansKeepToWhatIsFixed) {
  std::string plan = "plan " + kGpt + " --cluster local:4 --json ";
  Json json = ParseJson(RunHeddle(plan + "--pp 2 --stages 1,2").out, "output");
  EXPECT_EQ(json["degrees"]["pp"], 2);
  ASSERT_EQ(json["stages"].size(), 2u);
  int64_t first = json["stages"][0]["blocks"][1].get<int64_t>();
  EXPECT_EQ(json["stages"][1]["blocks"][0], first + 1);
  EXPECT_EQ(RunHeddle(plan + "--memory-limit 1MiB").status, 3);
  EXPECT_EQ(ParseJson(RunHeddle(plan + "--budget 0").out, "output")["stopped"], true);
}

// The error names what is missing: device memory, host memory, or a batch that can be divided.
TEST(Cli, PlansThatDoNotFitSayWhatIsMissing) {
  std::string card = std::string(" --cluster ") + HEDDLE_TEST_DATA "/../../bench/card_24gb.yaml ";
  auto expect = [](const std::string& command, const std::string& words) {
    RunOutput run = RunHeddle(command);
    EXPECT_EQ(run.status, 3);
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
  };
  std::string large = "plan gpt:layers=70,hidden=5120,heads=40,seq=128,vocab=512,batch=1" + card;
  for (std::string offload : {"", "--offload all"}) {
    expect(large + offload, "weights and state on the host take 287 GiB of a machine's memory");
    expect(large + offload, "take a machine with more memory");
  }
  expect(large + "--memory-limit 1GiB --offload all", "a device would be needed, and 963 MiB");
  expect("plan " + kGpt + " --batch 2 --cluster dgx-h100 --offload all",
         "share a batch (of 2) evenly");
}

TEST(Cli, PlansSayThatTheirSearchWasStopped) {
  TempFolder folder;
  std::string plan = "plan " + kGpt + " --cluster local:4 -o ";
  ASSERT_EQ(RunHeddle(plan + folder / "cut.json --budget 0").status, 0);
  EXPECT_TRUE(LoadPlan(folder / "cut.json").plan.search_stopped);
  ASSERT_EQ(RunHeddle(plan + folder / "whole.json").status, 0);
  EXPECT_EQ(Slurp(folder / "whole.json").find("search_stopped"), std::string::npos);
}

constexpr std::chrono::seconds kSoon(8 * kSlowdown);

// With a million devices and a batch of 10^10 samples, the search ends soon after its budget or the first interrupt,
// with the best plan so far or none.
TEST(Cli, HugeProblemsObeyTheBudgetAndTheFirstInterrupt) {
  using Clock = std::chrono::steady_clock;
  for (std::string how : {"--cluster dgx-h100:125000", "--batch 1000000 --cluster dgx-h100:125000",
                          "--batch 10000000000 --cluster dgx-h100:1",
                          "--batch 10000000000 --cluster dgx-h100:125000 --searcher expert"}) {
    Clock::time_point begin = Clock::now();
    RunOutput run = RunHeddle("plan gpt2 --budget 1 " + how);
    EXPECT_TRUE(run.status == 0 || run.status == 3) << how << run.err;
    EXPECT_LT(Clock::now() - begin, kSoon) << how;
  }
  TempFolder folder;
  std::string command = "timeout --foreground --preserve-status -s INT 1 " +
                        std::string(HEDDLE_BINARY) +
                        " plan gpt2 --batch 1000000 --cluster dgx-h100:125000 > " + folder / "out" +
                        " 2> " + folder / "err";
  Clock::time_point begin = Clock::now();
  int status = std::system(command.c_str());
  EXPECT_LT(Clock::now() - begin, kSoon);
  ASSERT_TRUE(WIFEXITED(status));
  bool found = WEXITSTATUS(status) == 0;
  std::string text = Slurp(folder / (found ? "out" : "err"));
  EXPECT_NE(text.find(found ? "stopped early" : "was stopped after"), std::string::npos) << text;
}

TEST(Cli, PlanMistakesAreOneLine) {
  std::string plan = "plan " + kGpt + " --cluster local:4 ";
  ExpectRefused("plan " + kGpt, {"--cluster"});
  ExpectRefused("plan " + kGpt + " --cluster nowhere", {"nowhere"});
  ExpectRefused(plan + "--searcher magic", {"--searcher magic", "choose one of auto", "expert"});
  ExpectRefused(plan + "--tp 3 --dp 2",
                {"dp 2 x tp 3 x pp 1 = 6 devices", "the 4 of the cluster", "tp 2"});
  ExpectRefused(plan + "--tp 0", {"--tp: 0", "from 1 to"});
  ExpectRefused(plan + "--tp two", {"--tp"});
  ExpectRefused(plan + "--microbatches 3", {"4", "3 micro-batches", "try 2"});
  ExpectRefused(plan + "--schedule 1f2b", {"--schedule 1f2b", "'1f1b'"});
  ExpectRefused(plan + "--chunks 2", {"chunks"});
  ExpectRefused(plan + "--recompute all", {"--recompute all", "none, selective, full"});
  ExpectRefused(plan + "--precision f64", {"--precision f64"});
  ExpectRefused(plan + "--pp 4 --chunks 4 --schedule interleaved --microbatches 4",
                {"16 stages", "3 repeated layers", "9 blocks in all", "at most 9"});
  ExpectRefused(plan + "--pp 1 --chunks 2 --schedule interleaved",
                {"2 chunks", "need a pipeline", "--pp 2"});
  ExpectRefused(plan + "--dp 4 --chunks 2 --schedule interleaved", {"dp 4", "need a pipeline"});
  ExpectRefused(plan + "--pp 2 --microbatches 1 --schedule interleaved", {"multiple of the 2"});
  ExpectRefused(plan + "-o /nowhere/plan.json", {"/nowhere/plan.json"});
}

TEST(Cli, MicrobatchesOfAFixedScheduleAreSearched) {
  RunOutput run =
      RunHeddle("plan " + kGpt + " --cluster local:4 --pp 2 --schedule interleaved --json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("interleaved"), std::string::npos);
}

TEST(Cli, SomethingMustBeTrained) {
  const std::string gpt = "gpt:layers=2,hidden=16,heads=2,seq=8,vocab=32,batch=4 ";
  for (std::string command : {"plan ", "space "}) {
    ExpectRefused(command + gpt + "--cluster local:2 --frozen '*'",
                  {"nothing to train", "--frozen"});
  }
  EXPECT_EQ(RunHeddle("inspect " + gpt + "--frozen '*'").status, 0);
  TempFolder folder;
  // Frozen are all parameters except one bias; the first layer and the embeddings; every matrix.
  for (std::string frozen : {"--frozen '*weight' --frozen '*.h.*'",
                             "--frozen '*.h.0.*' --frozen '*w?e*'", "--frozen '*weight'"}) {
    std::string plan = folder / "plan.json";
    RunOutput made = RunHeddle("plan " + gpt + "--cluster local:2 " + frozen + " -o " + plan);
    ASSERT_EQ(made.status, 0) << frozen << made.err;
    for (std::string command : {"simulate ", "explain --budget 1 "}) {
      RunOutput run = RunHeddle(command + plan);
      EXPECT_EQ(run.status, 0) << command << frozen << run.err;
    }
    Json json = ParseJson(Slurp(plan), plan);
    json["model"]["frozen"] = {"*"};
    WriteText(folder / "all.json", json.dump());
    ExpectRefused("simulate " + folder / "all.json", {"nothing to train"});
  }
}

TEST(Cli, EverySearcherSaysWhatIsMissing) {
  TempFolder folder;
  WriteText(folder / "two.yaml", kTwoDevices);
  const std::string plan = "plan gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4 --cluster " +
                           folder / "two.yaml" + " --json --memory-limit 1KB ";
  for (std::string how : {"", "--searcher expert", "--searcher data", "--tp 2 --sp", "--tp 2"}) {
    RunOutput run = RunHeddle(plan + how);
    EXPECT_EQ(run.status, 3) << how << run.out;
    EXPECT_EQ(run.out, "") << how;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    for (std::string part : {"no plan fits", "a device", "940 B"}) {
      EXPECT_NE(run.err.find(part), std::string::npos) << how << ": " << run.err;
    }
  }
}

TEST(Cli, PlansOfUnknownOptimizersAreRefused) {
  TempFolder folder;
  std::string plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan " + kMlp + " --cluster local:1 -o " + plan).status, 0);
  Json json = ParseJson(Slurp(plan), plan);
  json["optimizer"] = "lion";
  WriteText(plan, json.dump());
  for (std::string command : {"simulate ", "explain "}) {
    ExpectRefused(command + plan, {"plan.json", "optimizer", "lion", "adamw"});
  }
}

}  // namespace
}  // namespace heddle
