// Training from the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../run_binary.h"
#include "base/json.h"

namespace heddle {
namespace {

const std::string kData = HEDDLE_TEST_DATA "/pytorch/";

std::vector<double> Losses(const std::string& arguments) {
  RunOutput run = RunHeddle("train " + arguments + " --json");
  EXPECT_EQ(run.status, 0) << run.err;
  return ParseJson(run.out, "output")["losses"].get<std::vector<double>>();
}

void ExpectRefused(const std::string& arguments, const std::vector<std::string>& parts,
                   int status = 2) {
  RunOutput run = RunHeddle("train " + arguments);
  EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  for (const std::string& part : parts) {
    EXPECT_NE(run.err.find(part), std::string::npos) << "no '" << part << "' in: " << run.err;
  }
}

TEST(TrainCli, PrintsLossesBesideTheReference) {
  std::string model = kData + "tiny-mlp";
  RunOutput run = RunHeddle("train " + model + ".onnx --np 1 --steps 20 --data " + model +
                            ".ref.safetensors --reference " + model + ".ref.safetensors --json");
  ASSERT_EQ(run.status, 0) << run.err;
  Json json = ParseJson(run.out, "output");
  EXPECT_EQ(json["losses"].size(), 20u);
  EXPECT_LT(json["max_relative_difference"].get<double>(), 1e-4);
  EXPECT_GT(json["step_seconds"].get<double>(), 0);
}

TEST(TrainCli, AnExportedModelTrainsTheSame) {
  TempFolder folder;
  std::string model = kData + "tiny-gpt2.onnx", data = " --data " + kData + "tiny-gpt2.ref.safetensors";
  ASSERT_EQ(RunHeddle("export " + model + " -o " + folder / "m.heddle" + " --weights " +
                      folder / "w.safetensors")
                .status,
            0);
  EXPECT_EQ(Losses(model + data + " --steps 3"),
            Losses(folder / "m.heddle" + data + " --steps 3 --weights " + folder / "w.safetensors"));
}

TEST(TrainCli, TheSameSeedGivesTheSameLosses) {
  std::string model = kData + "tiny-cnn.onnx --init seeded --steps 2 --seed ";
  EXPECT_EQ(Losses(model + "3"), Losses(model + "3"));
  EXPECT_NE(Losses(model + "3"), Losses(model + "4"));
}

TEST(TrainCli, OptimizersReduceTheLoss) {
  for (std::string optimizer : {"sgd", "momentum", "adam", "adamw"}) {
    std::vector<double> losses =
        Losses(kData + "tiny-mlp.onnx --steps 10 --lr 0.005 --optimizer " + optimizer);
    EXPECT_LT(losses.back(), losses.front()) << optimizer;
  }
}

TEST(TrainCli, BadInputIsOneLine) {
  std::string model = kData + "tiny-gpt2.onnx ";
  ExpectRefused(HEDDLE_TEST_DATA "/models/resnet50.onnx.gz", {"parameters have no weights", "--init seeded"});
  ExpectRefused(model + "--init random", {"--init", "seeded"});
  ExpectRefused(model + "--optimizer adagrad", {"adagrad", "adamw"});
  ExpectRefused(model + "--lr nan", {"lr"});
  ExpectRefused(model + "--betas 0.9", {"--betas"});
  ExpectRefused(model + "--betas 0.9,1.5", {"1.5"});
  ExpectRefused(model + "--steps 0", {"--steps"});
  ExpectRefused(model + "--np 0", {"--np 0"});
  ExpectRefused(model + "--np x", {"--np"});
  ExpectRefused(model + "--data none.safetensors", {"none.safetensors"});
  ExpectRefused(model + "--data " + kData + "tiny-mlp.ref.safetensors",
                {"tiny-mlp.ref.safetensors", "input_ids", "labels"});
  ExpectRefused(model + "--data " + kData + "tiny-moe.ref.safetensors", {"input_ids", "[4,16]", "[4,32]"});
  ExpectRefused(model + "--weights " + kData + "tiny-mlp.ref.safetensors --data x", {"x"});
  ExpectRefused(kData + "tiny-mlp.onnx --optimizer sgd --lr 1e5 --steps 50", {"loss", "step", "--lr"}, 1);
}

}  // namespace
}  // namespace heddle
