// The program from the user's view: its output, its exit status, and one line for every error.
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli_files.h"
#include "run_binary.h"

namespace heddle {
namespace {

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
  EXPECT_EQ(json["devices"], 128);
  EXPECT_EQ(json["device_runs"][0]["count"], 128);
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
  ExpectRefused("cluster " + folder / "bad.yaml",
                {"bad.yaml:3: nodes[0].cuont: unknown key", "'count'"});
  ExpectRefused("cluster dgx-h10", {"no such preset", "dgx-h100"});
  ExpectRefused("cluster dgx-h100:0", {"at least 1"});
  ExpectRefused("cluster nowhere.yaml", {"nowhere.yaml", "no such file"});
  ExpectRefused("cluster dgx-h100 --json --yaml", {"--yaml"});
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
  EXPECT_NE(
      RunHeddle("validate " + folder / "runs.json").out.find("1 of 1 complete runs are predicted"),
      std::string::npos);
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
  // The backward pass of a product is two products.
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
  Json config =
      ParseJson(RunHeddle("inspect " + kData + "/hf/llama3-8b/config.json --json").out, "output");
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
  ExpectRefused("--bogus", {"unknown option '--bogus'", "the command comes first"});
  ExpectRefused("-x inspect", {"unknown option '-x'"});
  ExpectRefused("--versio", {"unknown option '--versio'", "did you mean '--version'"});
  ExpectRefused("insepct", {"insepct", "did you mean 'inspect'"});
  ExpectRefused("inspect " + kMlp + " --bach 4",
                {"inspect: unknown option '--bach'", "did you mean '--batch'",
                 "see 'heddle inspect --help'"});
  ExpectRefused("inspect " + kMlp + " more",
                {"unexpected argument 'more'", "see 'heddle inspect --help'"});
  ExpectRefused("export " + kMlp + " --output= --json", {"--output=", "empty"});
  ExpectRefused("export " + kMlp + " -o ''", {"--output", "empty"});
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
  WriteText(folder / "bad.heddle",
            "heddle 1\nmodel \"m\"\ninput %x: f32[2,3]\n%y: f32[3,3] = Relu(%x)\noutput %y\n");
  ExpectRefused("inspect " + folder / "bad.heddle", {"bad.heddle", "f32[3,3]", "f32[2,3]"});
  WriteText(folder / "op.heddle",
            "heddle 1\nmodel \"m\"\ninput %x: f32[2]\n%y: f32[2] = Weave(%x)\noutput %y\n");
  ExpectRefused("inspect " + folder / "op.heddle", {"op.heddle", "Weave"});
}

TEST(Cli, LostOutputIsAFailure) {
  for (std::string arguments :
       {"inspect " + kMlp, "inspect " + kMlp + " --json", std::string("--help")}) {
    EXPECT_EQ(RunHeddle(arguments, "/dev/full").status, 1) << arguments;
  }
}

TEST(Cli, StandardFilesMayBeClosed) {
  struct Case {
    std::string redirection;
    int status;
  };
  for (const auto& [redirection, status] : std::vector<Case>{{"<&- >/dev/null 2>/dev/null", 0},
                                                             {">/dev/null 2>&-", 0},
                                                             {">/dev/null <&- 2>&-", 0},
                                                             {">&- 2>/dev/null", 1},
                                                             {"<&- >&- 2>&-", 1},
                                                             {"1</dev/null 2>/dev/null", 1},
                                                             {">/dev/full 2>/dev/full", 1}}) {
    for (const std::string& command : {std::string("cluster"), "inspect " + kMlp + " --json"}) {
      std::string line = std::string(HEDDLE_BINARY) + " " + command + " " + redirection;
      int ended = std::system(line.c_str());
      EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == status) << line << ": " << ended;
    }
  }
  // The exit status is also 2 if the error message cannot be written.
  std::string mistake = std::string(HEDDLE_BINARY) + " inspect nothing.onnx >/dev/null 2>/dev/full";
  EXPECT_EQ(WEXITSTATUS(std::system(mistake.c_str())), 2);
  RunOutput run = RunHeddle("cluster 1>&-");
  EXPECT_EQ(run.status, 0) << "the file after it counts";
}

TEST(Cli, OneThingSaidInTwoWays) {
  const std::string gpt = "inspect gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4 ";
  ExpectRefused(gpt + "--dim batch=8", {"--dim batch=8", "batch=4"});
  ExpectRefused(gpt + "--dim batch=4 --batch 8", {"--batch 8", "--dim batch=4"});
  ExpectRefused(gpt + "--dim positions=9 --dim positions=10", {"positions=10", "positions=9"});
  ExpectRefused("inspect " + kGpt + " --dim batch=4 --batch 8", {"--batch 8", "--dim batch=4"});
  EXPECT_EQ(RunHeddle(gpt + "--dim batch=4 --batch 4 --dim positions=9 --dim positions=9").status,
            0);
}

TEST(Cli, HugeModelsAreRefusedBeforeTheyAreBuilt) {
  for (std::string keys :
       {"gpt:layers=100000", "gpt:layers=4097", "bert:layers=100000", "t5:layers=100000",
        "vit:layers=100000", "moe:shared_experts=100000", "moe:experts=1000000000",
        "gpt:seq=1000000000", "gpt:hidden=1099511627776", "gpt:hidden=1073741824,heads=1",
        "vgg:image=1073741824", "resnet:channels=1099511627776"}) {
    std::string family = keys.substr(0, keys.find(':'));
    ExpectRefused("inspect " + keys, {keys});
  }
  ExpectRefused("inspect gpt --dim layers=100000", {"layers=100000", "4096"});
}

TEST(Cli, TextModelsTakeTheirFlagsSeriously) {
  TempFolder folder;
  ASSERT_EQ(RunHeddle("export " + kMlp + " -o " + folder / "m.heddle").status, 0);
  ExpectRefused("inspect " + folder / "m.heddle" + " --dim batch=2", {"m.heddle", "--dim batch"});
  ExpectRefused("inspect " + folder / "m.heddle" + " --no-fuse", {"--no-fuse"});
  ExpectRefused("inspect " + folder / "m.heddle" + " --frozen 'zzz*'", {"zzz*"});
  Json some = ParseJson(
      RunHeddle("inspect " + folder / "m.heddle" + " --json --frozen 'm.1.*'").out, "output");
  EXPECT_EQ(some["parameters"].get<int64_t>(), 42762 - 128 * 192 - 128);
}

TEST(Cli, NothingIsWrittenOnError) {
  TempFolder folder;
  ExpectRefused(
      "export " + kMlp + " -o " + folder / "m.heddle" + " --weights " + folder / "m.heddle",
      {"same file"});
  ExpectRefused("export " + kMlp + " -o " + folder / "none/m.heddle" + " --weights " +
                    folder / "w.safetensors",
                {"none"});
  ExpectRefused("export " + kMlp + " -o " + folder / "m.txt", {"m.txt", ".heddle"});
  ExpectRefused("export " + kData + "/none.onnx -o " + folder / "m.heddle" + " --weights " +
                    folder / "w.safetensors",
                {"none.onnx"});
  EXPECT_TRUE(folder.IsEmpty());
}

}  // namespace
}  // namespace heddle
