// The program as a person meets it: what it prints, its exit status, and one line for every mistake.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "cli/plan_args.h"
#include "run_binary.h"

namespace heddle {
namespace {

const std::string kData = HEDDLE_TEST_DATA;
const std::string kMlp = kData + "/pytorch/tiny-mlp.onnx";
const std::string kGpt = kData + "/pytorch/tiny-gpt2.onnx";

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(Cli, HelpListsCommandsAndGivesExamples) {
  RunOutput help = RunHeddle("--help");
  EXPECT_EQ(help.status, 0);
  for (std::string command : {"inspect", "export", "models", "cluster", "plan", "train"}) {
    EXPECT_NE(help.out.find(command), std::string::npos);
  }
  for (std::string command : {"inspect", "export", "models"}) {
    RunOutput one = RunHeddle(command + " --help");
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.out.find("Example:"), std::string::npos) << one.out;
  }
}

TEST(Cli, ClusterDrawsPrintsAndLists) {
  RunOutput drawn = RunHeddle("cluster dgx-h100:16");
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_NE(drawn.out.find("16 x node dgx-h100  (d0..d127)"), std::string::npos) << drawn.out;
  Json json = ParseJson(RunHeddle("cluster dgx-h100:16 --json").out, "output");
  EXPECT_EQ(json["device_count"], 128);
  EXPECT_EQ(json["devices"][0]["count"], 128);
  EXPECT_EQ(json["groups"].size(), 2u);
  EXPECT_EQ(json["groups"][0]["link"]["bandwidth"], 450e9);
  EXPECT_NE(RunHeddle("cluster").out.find("tpu-v4"), std::string::npos);
  EXPECT_GT(ParseJson(RunHeddle("cluster --json").out, "output")["presets"].size(), 10u);
  EXPECT_NE(RunHeddle("cluster --help").out.find("Examples:"), std::string::npos);
}

TEST(Cli, ClusterFilesRoundTripAndMistakesAreOneLine) {
  TempFolder folder;
  WriteText(folder / "c.yaml", RunHeddle("cluster summit:4 --yaml").out);
  EXPECT_EQ(RunHeddle("cluster " + folder / "c.yaml").out, RunHeddle("cluster summit:4").out);
  WriteText(folder / "bad.yaml", "nodes:\n  - preset: dgx-h100\n    cuont: 2\n");
  ExpectRefused("cluster " + folder / "bad.yaml", {"bad.yaml:3: nodes[0].cuont: unknown key", "'count'"});
  ExpectRefused("cluster dgx-h10", {"no such preset", "dgx-h100"});
  ExpectRefused("cluster dgx-h100:0", {"at least 1"});
  ExpectRefused("cluster nowhere.yaml", {"nowhere.yaml", "no such file"});
  ExpectRefused("cluster dgx-h100 --json --yaml", {"--yaml"});
}

TEST(Cli, PlanPrintsOneScreenAndOneJsonObject) {
  TempFolder folder;
  std::string arguments =
      "plan " + kGpt + " --cluster local:8 --dp 2 --tp 2 --pp 2 --microbatches 2 --zero 1 --searcher expert";
  RunOutput run = RunHeddle(arguments + " -o " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("dp 2  tp 2  pp 2  cp 1  ep 1  sp off"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("4..7  dp 2 x tp 2"), std::string::npos) << run.out;
  Json plan = ParseJson(Slurp(folder / "plan.json"), "plan.json");
  EXPECT_EQ(plan["heddle_plan"], 1);
  EXPECT_EQ(plan["stages"].size(), 2u);

  Json json = ParseJson(RunHeddle(arguments + " --json").out, "output");
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["searcher"], "expert");
  EXPECT_EQ(json["degrees"], ParseJson(R"({"dp": 2, "tp": 2, "pp": 2, "cp": 1, "ep": 1, "sp": false, "zero": 1, "offload": "none",
                                           "microbatches": 2, "recompute": "none"})", "expected"));
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
  std::string arguments = "plan " + folder / "copy.heddle" + " --cluster local:8 --tp 2 --pp 2 --batch 4 -o ";
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
    RunOutput run = RunHeddle("plan " + kGpt + " --cluster dgx-h100 --json --precision " + precision);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(ParseJson(run.out, "output")["precision"], precision);
  }
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

TEST(Cli, PlansSayThatTheirSearchWasStopped) {
  TempFolder folder;
  std::string plan = "plan " + kGpt + " --cluster local:4 -o ";
  ASSERT_EQ(RunHeddle(plan + folder / "cut.json --budget 0").status, 0);
  EXPECT_TRUE(LoadPlan(folder / "cut.json").plan.search_stopped);
  ASSERT_EQ(RunHeddle(plan + folder / "whole.json").status, 0);
  EXPECT_EQ(Slurp(folder / "whole.json").find("search_stopped"), std::string::npos);
}

TEST(Cli, PlanMistakesAreOneLine) {
  std::string plan = "plan " + kGpt + " --cluster local:4 ";
  ExpectRefused("plan " + kGpt, {"--cluster"});
  ExpectRefused("plan " + kGpt + " --cluster nowhere", {"nowhere"});
  ExpectRefused(plan + "--searcher magic", {"--searcher magic", "there are auto", "expert"});
  ExpectRefused(plan + "--tp 3 --dp 2", {"dp 2 x tp 3 x pp 1 = 6 devices", "the 4 of the cluster", "tp 2"});
  ExpectRefused(plan + "--tp 0", {"tp 0", "at least 1"});
  ExpectRefused(plan + "--tp two", {"--tp"});
  ExpectRefused(plan + "--microbatches 3", {"4", "3 micro-batches", "try 2"});
  ExpectRefused(plan + "--schedule 1f2b", {"--schedule 1f2b", "'1f1b'"});
  ExpectRefused(plan + "--chunks 2", {"chunks"});
  ExpectRefused(plan + "--recompute all", {"--recompute all", "none, selective, full"});
  ExpectRefused(plan + "--precision f64", {"--precision f64"});
  ExpectRefused(plan + "--pp 4 --chunks 4 --schedule interleaved --microbatches 4", {"16 stages", "3 repeated layers", "at most 3"});
  ExpectRefused(plan + "-o /nowhere/plan.json", {"/nowhere/plan.json"});
}

TEST(Cli, SimulatePrintsOneScreenAndOneJsonObject) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster dgx-h100 --dp 2 --tp 2 --pp 2 --microbatches 2 --recompute full -o " +
                      folder / "plan.json").status, 0);
  RunOutput run = RunHeddle("simulate " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (std::string text : {"tiny-gpt2 on dgx-h100:1: 8 of 8 devices", "dp 2 x tp 2 x pp 2, 8 devices, 2 micro-batches, 1f1b",
                           "(simulated, stack 'heddle')", "tokens/s, MFU", "the critical path", "at its peak",
                           "of the 80.0 GiB of h100-sxm", "who does what when", "0-9 forward"}) {
    EXPECT_NE(run.out.find(text), std::string::npos) << text << "\n" << run.out;
  }
  EXPECT_EQ(run.out.find("DOES NOT FIT"), std::string::npos);
  EXPECT_EQ(run.out.find(" \n"), std::string::npos) << "blanks at the end of a line";

  run = RunHeddle("simulate " + folder / "plan.json" + " --json --trace " + folder / "trace.json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  for (std::string key : {"step_seconds", "peak_memory_bytes", "exposed_communication", "mfu", "hfu", "events",
                          "simulate_seconds", "lower_seconds", "reserved_memory_bytes", "tokens_per_second"}) {
    EXPECT_GT(json[key].get<double>(), 0) << key;
  }
  EXPECT_GE(json["bubble"].get<double>(), 0);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["fits"], true);
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
  for (std::string category : {"forward", "backward", "recompute", "collective", "transfer", "optimizer"}) {
    EXPECT_TRUE(categories.contains(category)) << category;
  }
  EXPECT_NE(RunHeddle("simulate --help").out.find("Examples:"), std::string::npos);
}

TEST(Cli, SimulateNamesWhatIsSlow) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster dgx-h100 --dp 4 -o " + folder / "plan.json").status, 0);
  std::string slow = "simulate " + folder / "plan.json" + " --slow device=3,factor=1.5 --slow link=1,factor=2";
  RunOutput run = RunHeddle(slow);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("device 3 (1.5 x), the links of device 1 (2 x): +"), std::string::npos) << run.out;
  Json json = ParseJson(RunHeddle(slow + " --json").out, "output");
  EXPECT_GT(json["step_seconds"].get<double>(), json["even_step_seconds"].get<double>());
  EXPECT_EQ(json["slow"], ParseJson(R"([{"device": 3, "factor": 1.5}, {"link": 1, "factor": 2.0}])", "expected"));
  Json whole = ParseJson(RunHeddle(slow + " --json --no-fold").out, "output");
  EXPECT_EQ(whole["step_seconds"], json["step_seconds"]);
  EXPECT_EQ(whole["classes"].size(), 4u);
}

TEST(Cli, SimulateSaysWhenAPlanDoesNotFit) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan gpt3-175b --cluster dgx-h100 --tp 8 --searcher expert -o " + folder / "plan.json").status, 0);
  RunOutput run = RunHeddle("simulate " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("DOES NOT FIT: 8 of 8 devices have too little memory"), std::string::npos) << run.out;
  EXPECT_EQ(ParseJson(RunHeddle("simulate " + folder / "plan.json" + " --json").out, "output")["fits"], false);
}

TEST(Cli, SimulateMistakesAreOneLine) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster local:4 --dp 4 -o " + folder / "plan.json").status, 0);
  std::string simulate = "simulate " + folder / "plan.json" + " ";
  ExpectRefused("simulate", {"PLAN"});
  ExpectRefused("simulate " + folder / "none.json", {"none.json"});
  ExpectRefused("simulate " + kGpt, {kGpt});
  ExpectRefused(simulate + "--stack megatro", {"--stack megatro", "did you mean 'megatron"});
  ExpectRefused(simulate + "--stack xyzzy", {"--stack xyzzy", "there are heddle"});
  ExpectRefused(simulate + "--slow 3", {"--slow '3'", "device=3,factor=1.5"});
  ExpectRefused(simulate + "--slow device=1,factor=0.5", {"a factor from 1 to 1000"});
  ExpectRefused(simulate + "--slow device=1,factor=nan", {"a factor from 1 to 1000"});
  ExpectRefused(simulate + "--slow device=4,factor=2", {"device 4", "devices 0 to 3"});
  ExpectRefused(simulate + "--trace /nowhere/trace.json", {"/nowhere/trace.json"});
  ExpectRefused(simulate + "--trace-devices 0", {"--trace-devices 0", "at least 1"});
  ExpectRefused(simulate + "--model " + kMlp, {"plan.json"});
  ExpectRefused(simulate + "--colour", {"--colour"});
}

TEST(Cli, ExplainPrintsTablesAndOneJsonObject) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("plan " + kGpt + " --cluster dgx-h100 --dp 2 --tp 2 --pp 2 --microbatches 2 --sp -o " +
                      folder / "plan.json").status, 0);
  RunOutput run = RunHeddle("explain " + folder / "plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (std::string text : {"NOT THE FASTEST", "dp 2 x tp 2 x pp 2", "layers 0..", "columns", "rows", "sequence",
                           "all-gather over tp", "the critical path", "the plan that is better"}) {
    EXPECT_NE(run.out.find(text), std::string::npos) << text << "\n" << run.out;
  }
  EXPECT_EQ(run.out.find(" \n"), std::string::npos) << "blanks at the end of a line";

  Json json = ParseJson(RunHeddle("explain " + folder / "plan.json" + " --json").out, "output");
  EXPECT_EQ(json["is_beaten"], true);
  EXPECT_EQ(json["fits"], true);
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
            "dp,tp,pp,microbatches,schedule,chunks,zero,offload,recompute,fits,step_seconds,estimate_seconds,floor_seconds,"
            "reserved_bytes,estimated_bytes,bubble,exposed_communication,mfu");
  EXPECT_NE(run.err.find("rank correlation"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  RunOutput file = RunHeddle(arguments + "-o " + folder / "space.csv");
  ASSERT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(file.out, "");
  EXPECT_EQ(Slurp(folder / "space.csv"), run.out);

  Json json = ParseJson(RunHeddle(arguments + "--json").out, "output");
  EXPECT_EQ(json["rows"].size(), json["configurations"]);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), json["configurations"].get<int64_t>() + 1);
  double before = 0;
  for (const Json& row : json["rows"]) {
    EXPECT_GE(row["step_seconds"].get<double>(), before);
    before = row["step_seconds"].get<double>();
  }
  EXPECT_EQ(ParseJson(RunHeddle(arguments + "--format json").out, "output"), json);
  Json summary = ParseJson(RunHeddle(arguments + "--json -o " + folder / "space.json").out, "output");
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

TEST(Cli, ValidateListsPublishedRuns) {
  TempFolder folder;
  std::ofstream(folder / "runs.json") << R"({"runs": [
    {"id": "mine", "source_id": "me", "family": "gpt",
     "model": {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 256, "vocab": 128,
               "seq": 32, "mlp": "gelu_2mat", "tied_embeddings": true},
     "precision": "bf16", "optimizer": "Adam", "device": "A100-SXM4-80GB", "gpus": 4, "gpus_per_node": 4,
     "parallel": {"tp": 2, "pp": 1, "dp": 2, "cp": 1, "ep": 1}, "micro_batch": 1, "global_batch": 4,
     "recompute": "none", "schedule": {"kind": "none"}, "sharding": "none", "measured": {"step_seconds": 0.5}},
    {"id": "unknown", "source_id": "me", "family": "gpt",
     "model": {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 256, "vocab": 128,
               "seq": 32, "mlp": "gelu_2mat", "tied_embeddings": true},
     "precision": "bf16", "optimizer": "Adam", "device": "A100-SXM4-80GB", "gpus": 4, "gpus_per_node": 4}]})";
  RunOutput run = RunHeddle("validate --json " + folder / "runs.json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][0]["measured"], 0.5);
  EXPECT_GT(json["runs"][0]["predicted"], 0);
  EXPECT_TRUE(json["runs"][0]["error"].is_number());
  EXPECT_EQ(json["runs"][1]["error"], nullptr);
  EXPECT_EQ(json["runs"][1]["measured"], nullptr);
  EXPECT_EQ(std::string(json["runs"][1]["reason"]).find("not published: parallel.tp"), 0u);
  EXPECT_NE(RunHeddle("validate " + folder / "runs.json").out.find("1 of 1 complete runs predicted"), std::string::npos);
  ExpectRefused("validate " + folder / "none.json", {"none.json"});
  ExpectRefused("validate " + kMlp, {kMlp});
}

TEST(Cli, InspectPrintsOneJsonObject) {
  RunOutput run = RunHeddle("inspect " + kGpt + " --json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  Json json = ParseJson(run.out, "output");
  EXPECT_EQ(json["parameters"], 170560);
  for (std::string key : {"nodes", "forward_contraction_flops", "forward_flops", "backward_flops",
                          "activation_bytes", "blocks", "import_seconds"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  // Every product's backward is two products.
  EXPECT_NEAR(json["backward_flops"].get<double>() / json["forward_flops"].get<double>(), 2, 0.1);
}

TEST(Cli, InspectIsReadable) {
  RunOutput run = RunHeddle("inspect " + kData + "/models/gpt3-175b.onnx.gz");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("175B (174604259328) in 1156 tensors"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("Attention"), std::string::npos) << run.out;
}

TEST(Cli, ExportWritesAModelThatReadsBack) {
  TempFolder folder;
  RunOutput run = RunHeddle("export " + kGpt + " -o " + folder / "m.heddle" + " --weights " +
                            folder / "w.safetensors");
  ASSERT_EQ(run.status, 0) << run.err;
  Json text = ParseJson(RunHeddle("inspect " + folder / "m.heddle" + " --json").out, "output");
  Json file = ParseJson(RunHeddle("inspect " + kGpt + " --json").out, "output");
  for (std::string key : {"nodes", "parameters", "forward_flops", "activation_bytes"}) {
    EXPECT_EQ(text[key], file[key]) << key;
  }
}

TEST(Cli, FrozenParametersAreNotTrained) {
  Json all = ParseJson(RunHeddle("inspect " + kMlp + " --json").out, "output");
  Json some = ParseJson(RunHeddle("inspect " + kMlp + " --json --frozen 'm.1.*'").out, "output");
  EXPECT_EQ(all["parameters"].get<int64_t>() - some["parameters"].get<int64_t>(), 128 * 192 + 128);
}

TEST(Cli, BuiltInModelsNeedNoFile) {
  Json named = ParseJson(RunHeddle("inspect gpt2:batch=2 --dim seq=128 --json").out, "output");
  EXPECT_EQ(named["parameters"], 124439808 - (1024 - 128) * 768);
  Json config = ParseJson(RunHeddle("inspect " + kData + "/hf/llama3-8b/config.json --json").out, "output");
  EXPECT_EQ(config["parameters"], 8030261248);
  EXPECT_EQ(config["model"], "llama3-8b");
  ExpectRefused("inspect gpt:heads=7", {"gpt:heads=7", "hidden=768"});
  ExpectRefused("inspect gpt:layer=7", {"'layer'", "layers"});
  ExpectRefused("inspect gtp2", {"gtp2", "did you mean 'gpt2'"});
  ExpectRefused("inspect gpt2 --dim sequence=4", {"sequence", "did you mean 'seq'"});
  ExpectRefused("inspect " + kData + "/none/config.json", {"none/config.json"});
  ExpectRefused("inspect " + kData + "/models.json", {"models.json", "model_type"});
}

TEST(Cli, ModelsAreListedWithKeysAndCounts) {
  RunOutput list = RunHeddle("models");
  EXPECT_EQ(list.status, 0);
  for (std::string text : {"gpt3-175b              175B", "llama3-405b", "inception_v3"}) {
    EXPECT_NE(list.out.find(text), std::string::npos) << text;
  }
  EXPECT_NE(RunHeddle("models llama2-70b").out.find("kv_heads         heads"), std::string::npos);
  Json json = ParseJson(RunHeddle("models --json").out, "output");
  EXPECT_EQ(json["families"][0]["name"], "gpt");
  EXPECT_EQ(json["models"][0]["parameters"], 124439808);
  ExpectRefused("models gtp", {"gtp", "gpt"});
}

TEST(Cli, BadUsageIsOneLine) {
  ExpectRefused("", {"heddle --help"});
  ExpectRefused("weave", {"weave"});
  ExpectRefused("inspect", {"MODEL"});
  ExpectRefused("inspect " + kMlp + " --colour", {"--colour"});
  ExpectRefused("inspect " + kMlp + " --dim batch", {"--dim batch", "NAME=N"});
  ExpectRefused("inspect " + kMlp + " --dim batch=0", {"batch=0"});
  ExpectRefused("inspect " + kMlp + " --dim batch=99999999999999999999", {"batch=9999"});
  ExpectRefused("inspect model.pt", {"model.pt", ".onnx"});
}

TEST(Cli, BadFilesAreOneLine) {
  TempFolder folder;
  ExpectRefused("inspect " + folder / "none.onnx", {"none.onnx"});
  std::filesystem::create_directory(folder / "folder.onnx");
  ExpectRefused("inspect " + folder / "folder.onnx", {"folder.onnx", "directory"});
  WriteText(folder / "empty.onnx", "");
  ExpectRefused("inspect " + folder / "empty.onnx", {"empty.onnx", "empty"});
  WriteText(folder / "text.onnx", "This is no model.\n");
  ExpectRefused("inspect " + folder / "text.onnx", {"text.onnx"});
  std::string model = Slurp(kMlp);
  WriteText(folder / "cut.onnx", model.substr(0, model.size() / 2));
  ExpectRefused("inspect " + folder / "cut.onnx", {"cut.onnx"});
  WriteText(folder / "cut.onnx.gz", Slurp(kData + "/models/vgg19.onnx.gz").substr(0, 1000));
  ExpectRefused("inspect " + folder / "cut.onnx.gz", {"cut.onnx.gz", "gzip"});
  WriteText(folder / "bad.heddle", "heddle 1\nmodel \"m\"\ninput %x: f32[2,3]\n%y: f32[3,3] = Relu(%x)\noutput %y\n");
  ExpectRefused("inspect " + folder / "bad.heddle", {"bad.heddle", "f32[3,3]", "f32[2,3]"});
  WriteText(folder / "op.heddle", "heddle 1\nmodel \"m\"\ninput %x: f32[2]\n%y: f32[2] = Weave(%x)\noutput %y\n");
  ExpectRefused("inspect " + folder / "op.heddle", {"op.heddle", "Weave"});
}

TEST(Cli, LostOutputIsAFailure) {
  for (std::string arguments : {"inspect " + kMlp, "inspect " + kMlp + " --json", std::string("--help")}) {
    EXPECT_EQ(RunHeddle(arguments, "/dev/full").status, 1) << arguments;
  }
}

TEST(Cli, TextModelsTakeTheirFlagsSeriously) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("export " + kMlp + " -o " + folder / "m.heddle").status, 0);
  ExpectRefused("inspect " + folder / "m.heddle" + " --dim batch=2", {"m.heddle", "--dim batch"});
  ExpectRefused("inspect " + folder / "m.heddle" + " --no-fuse", {"--no-fuse"});
  ExpectRefused("inspect " + folder / "m.heddle" + " --frozen 'zzz*'", {"zzz*"});
  Json some = ParseJson(RunHeddle("inspect " + folder / "m.heddle" + " --json --frozen 'm.1.*'").out, "output");
  EXPECT_EQ(some["parameters"].get<int64_t>(), 42762 - 128 * 192 - 128);
}

TEST(Cli, NothingIsWrittenOnError) {
  TempFolder folder;
  ExpectRefused("export " + kMlp + " -o " + folder / "m.heddle" + " --weights " + folder / "m.heddle",
                {"same file"});
  ExpectRefused("export " + kMlp + " -o " + folder / "none/m.heddle" + " --weights " + folder / "w.safetensors",
                {"none"});
  ExpectRefused("export " + kMlp + " -o " + folder / "m.txt", {"m.txt", ".heddle"});
  ExpectRefused("export " + kData + "/none.onnx -o " + folder / "m.heddle" + " --weights " +
                    folder / "w.safetensors",
                {"none.onnx"});
  EXPECT_TRUE(folder.IsEmpty());
}

}  // namespace
}  // namespace heddle
