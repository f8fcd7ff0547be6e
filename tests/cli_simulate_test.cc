// heddle simulate, explain and space from the user's view.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "cli_files.h"
#include "run_binary.h"

namespace heddle {
namespace {

TEST(Cli, SimulatePrintsOneScreenAndOneJsonObject) {
  TempFolder folder;
  ASSERT_EQ(
      RunHeddle("plan " + kGpt +
                " --cluster dgx-h100 --dp 2 --tp 2 --pp 2 --microbatches 2 --recompute full -o " +
                folder / "plan.json")
          .status,
      0);
  RunOutput run = RunHeddle("simulate " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (std::string text :
       {"tiny-gpt2 on dgx-h100:1: 8 of 8 devices",
        "dp 2 x tp 2 x pp 2, 8 devices, 2 micro-batches, 1f1b", "(simulated, stack 'heddle')",
        "tokens/s, MFU", "the critical path", "at its peak", "of the 80.0 GiB of h100-sxm",
        "who does what when", "0-9 forward"}) {
    EXPECT_NE(run.out.find(text), std::string::npos) << text << "\n" << run.out;
  }
  EXPECT_EQ(run.out.find("DOES NOT FIT"), std::string::npos);
  EXPECT_EQ(run.out.find(" \n"), std::string::npos) << "blanks at the end of a line";

  run = RunHeddle("simulate " + folder / "plan.json" + " --json --trace " + folder / "trace.json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  for (std::string key :
       {"step_seconds", "peak_memory_bytes", "exposed_communication", "mfu", "hfu", "events",
        "simulate_seconds", "lower_seconds", "reserved_memory_bytes", "tokens_per_second"}) {
    EXPECT_GT(json[key].get<double>(), 0) << key;
  }
  EXPECT_GE(json["bubble"].get<double>(), 0);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["stack"], "heddle");
  EXPECT_GT(json["hfu"].get<double>(), json["mfu"].get<double>());  // it recomputes
  double sum = 0, memory = 0;
  for (const Json& term : json["critical"]) sum += term.get<double>();
  EXPECT_NEAR(sum, json["step_seconds"].get<double>(), 1e-9 * sum);
  for (const Json& kind : json["memory"]) memory += kind.get<double>();
  EXPECT_EQ(memory, json["peak_memory_bytes"].get<double>());
  int64_t devices = 0;
  for (const Json& one : json["classes"]) devices += one["count"].get<int64_t>();
  EXPECT_EQ(devices, 8);

  Json trace = ParseJson(Slurp(folder / "trace.json"), "trace.json");
  double end = 0;
  std::set<std::string> categories;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
    categories.insert(event["cat"].get<std::string>());
  }
  EXPECT_NEAR(end, 1e6 * json["step_seconds"].get<double>(), 0.01);
  for (std::string category :
       {"forward", "backward", "recompute", "collective", "transfer", "optimizer"}) {
    EXPECT_TRUE(categories.contains(category)) << category;
  }
  EXPECT_NE(RunHeddle("simulate --help").out.find("Examples:"), std::string::npos);
}

TEST(Cli, SimulateNamesWhatIsSlow) {
  TempFolder folder;
  ASSERT_EQ(
      RunHeddle("plan " + kGpt + " --cluster dgx-h100 --dp 4 -o " + folder / "plan.json").status,
      0);
  std::string slow =
      "simulate " + folder / "plan.json" + " --slow device=3,factor=1.5 --slow link=1,factor=2";
  RunOutput run = RunHeddle(slow);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("device 3 (1.5 x), the links of device 1 (2 x): +"), std::string::npos)
      << run.out;
  Json json = ParseJson(RunHeddle(slow + " --json").out, "output");
  EXPECT_GT(json["step_seconds"].get<double>(), json["even_step_seconds"].get<double>());
  EXPECT_EQ(json["slow"],
            ParseJson(R"([{"device": 3, "factor": 1.5}, {"link": 1, "factor": 2.0}])", "expected"));
  Json whole = ParseJson(RunHeddle(slow + " --json --no-fold").out, "output");
  EXPECT_EQ(whole["step_seconds"], json["step_seconds"]);
  EXPECT_EQ(whole["classes"].size(), 4u);
}

TEST(Cli, SimulateSaysWhenAPlanDoesNotFit) {
  TempFolder folder;
  WriteText(folder / "two.yaml", kTwoDevices);
  std::string make =
      "plan " + kGpt + " --cluster " + folder / "two.yaml" + " -o " + folder / "plan.json";
  ASSERT_EQ(RunHeddle(make).status, 0);
  Json plan = ParseJson(Slurp(folder / "plan.json"), "plan");
  plan["cluster"]["device_types"][0]["memory"] = "1 MiB";
  WriteText(folder / "plan.json", plan.dump());
  RunOutput run = RunHeddle("simulate " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("DOES NOT FIT: 2 of 2 devices have too little memory"), std::string::npos)
      << run.out;
  EXPECT_EQ(ParseJson(RunHeddle("simulate " + folder / "plan.json" + " --json").out,
                      "output")["feasible"],
            false);
}

TEST(Cli, SimulateMistakesAreOneLine) {
  TempFolder folder;
  ASSERT_EQ(
      RunHeddle("plan " + kGpt + " --cluster local:4 --dp 4 -o " + folder / "plan.json").status, 0);
  std::string simulate = "simulate " + folder / "plan.json" + " ";
  ExpectRefused("simulate", {"PLAN"});
  ExpectRefused("simulate " + folder / "none.json", {"none.json"});
  ExpectRefused("simulate " + kGpt, {kGpt});
  ExpectRefused(simulate + "--stack megatro", {"--stack megatro", "did you mean 'megatron"});
  ExpectRefused(simulate + "--stack xyzzy", {"--stack xyzzy", "choose one of heddle"});
  ExpectRefused(simulate + "--slow 3", {"--slow '3'", "device=3,factor=1.5"});
  ExpectRefused(simulate + "--slow device=1,factor=0.5", {"a factor from 1 to 1000"});
  ExpectRefused(simulate + "--slow device=1,factor=nan", {"a factor from 1 to 1000"});
  ExpectRefused(simulate + "--slow device=4,factor=2", {"device 4", "devices 0 to 3"});
  ExpectRefused(simulate + "--trace /nowhere/trace.json", {"/nowhere/trace.json"});
  ExpectRefused(simulate + "--trace-devices 0", {"--trace-devices: 0", "from 1 to"});
  ExpectRefused(simulate + "--model " + kMlp, {"plan.json"});
  ExpectRefused(simulate + "--colour", {"--colour"});
}

TEST(Cli, ExplainPrintsTablesAndOneJsonObject) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt +
                      " --cluster dgx-h100 --dp 2 --tp 2 --pp 2 --microbatches 2 --sp -o " +
                      folder / "plan.json")
                .status,
            0);
  RunOutput run = RunHeddle("explain " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (std::string text :
       {"NOT THE FASTEST", "dp 2 x tp 2 x pp 2", "layers 0..", "columns", "rows", "sequence",
        "all-gather over tp", "the critical path", "the plan that is better"}) {
    EXPECT_NE(run.out.find(text), std::string::npos) << text << "\n" << run.out;
  }
  EXPECT_EQ(run.out.find(" \n"), std::string::npos) << "blanks at the end of a line";

  Json json = ParseJson(RunHeddle("explain " + folder / "plan.json" + " --json").out, "output");
  EXPECT_EQ(json["is_beaten"], true);
  EXPECT_EQ(json["feasible"], true);
  EXPECT_LT(json["runner_up"]["step_seconds"].get<double>(), json["step_seconds"].get<double>());
  EXPECT_EQ(json["runner_up"]["break_even"].size(), 4u);
  double critical = 0;
  for (const auto& [name, seconds] : json["critical"].items()) critical += seconds.get<double>();
  EXPECT_NEAR(critical, json["step_seconds"].get<double>(), 1e-9);
  EXPECT_GT(json["groups"].size(), 1u);
  EXPECT_EQ(json["groups"][0]["nodes"][0]["splits"]["dp"], "batch");
}

TEST(Cli, ExplainOfTheBestPlanNamesARunnerUp) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster dgx-h100 -o " + folder / "plan.json").status, 0);
  RunOutput run = RunHeddle("explain " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out.find("NOT THE FASTEST"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("the runner-up"), std::string::npos) << run.out;
  EXPECT_NE(RunHeddle("explain --help").out.find("Example:"), std::string::npos);
}

TEST(Cli, ExplainMistakesAreOneLine) {
  TempFolder folder;
  WriteText(folder / "bad.json", "{\"heddle_plan\": 1}");
  WriteText(folder / "text.json", "no plan");
  ExpectRefused("explain", {"PLAN"});
  ExpectRefused("explain " + folder / "none.json", {"none.json", "no such file"});
  ExpectRefused("explain " + folder / "bad.json", {"bad.json"});
  ExpectRefused("explain " + folder / "text.json", {"text.json"});
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster local:2 -o " + folder / "plan.json").status, 0);
  ExpectRefused("explain " + folder / "plan.json --model nowhere.onnx", {"nowhere.onnx"});
}

TEST(Cli, SpaceIsATableInOrder) {
  TempFolder folder;
  std::string arguments = "space " + kGpt + " --cluster local:4 --pp 1 ";
  RunOutput run = RunHeddle(arguments);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out.substr(0, run.out.find('\n')),
            "dp,tp,pp,microbatches,schedule,chunks,zero,offload,recompute,feasible,step_seconds,"
            "estimate_seconds,floor_seconds,"
            "reserved_memory_bytes,estimated_memory_bytes,bubble,exposed_communication,mfu");
  EXPECT_NE(run.err.find("rank correlation"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  RunOutput file = RunHeddle(arguments + "-o " + folder / "space.csv");
  ASSERT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(file.out, "");
  EXPECT_EQ(Slurp(folder / "space.csv"), run.out);

  Json json = ParseJson(RunHeddle(arguments + "--json").out, "output");
  EXPECT_EQ(json["rows"].size(), json["configurations"]);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'),
            json["configurations"].get<int64_t>() + 1);
  double before = 0;
  for (const Json& row : json["rows"]) {
    EXPECT_GE(row["step_seconds"].get<double>(), before);
    before = row["step_seconds"].get<double>();
  }
  EXPECT_EQ(ParseJson(RunHeddle(arguments + "--format json").out, "output"), json);
  Json summary =
      ParseJson(RunHeddle(arguments + "--json -o " + folder / "space.json").out, "output");
  EXPECT_EQ(summary["output"], folder / "space.json");
  EXPECT_EQ(ParseJson(Slurp(folder / "space.json"), "space.json"), json);
}

TEST(Cli, SpaceMistakesAreOneLine) {
  std::string space = "space " + kGpt + " --cluster local:4 ";
  ExpectRefused("space " + kGpt, {"--cluster"});
  ExpectRefused("space nowhere.onnx --cluster local:4", {"nowhere.onnx"});
  ExpectRefused(space + "--format xml", {"--format xml", "csv, json"});
  ExpectRefused(space + "--limit 3", {"--limit 3", "--pp 1", "--recompute none"});
  ExpectRefused(space + "--sp", {"--sp", "expert"});
  ExpectRefused(space + "--dp 8", {"dp 8", "the 4 of the cluster"});
  ExpectRefused(space + "--pp 1 -o /nowhere/space.csv", {"/nowhere/space.csv"});
  EXPECT_NE(RunHeddle("space --help").out.find("Example:"), std::string::npos);
}

}  // namespace
}  // namespace heddle
