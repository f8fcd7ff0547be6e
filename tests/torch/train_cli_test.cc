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

TEST(TrainCli, BuiltInModelsTrainFromSeededWeights) {
  for (std::string model : {"gpt:layers=2,hidden=32,heads=4,seq=16,vocab=50,batch=2",
                            "llama:layers=2,hidden=32,heads=4,kv_heads=2,seq=16,vocab=50,batch=2"}) {
    std::vector<double> losses = Losses(model + " --steps 5 --lr 0.01");
    EXPECT_NEAR(losses[0], std::log(50.0), 1.0) << model;
    EXPECT_LT(losses.back(), losses[0]) << model;
  }
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
  ExpectRefused("train " HEDDLE_TEST_DATA "/models/resnet50.onnx.gz", {"parameters have no weights", "--init seeded"});
  ExpectRefused("train " + model + "--init random", {"--init", "seeded"});
  ExpectRefused("train " + model + "--optimizer adagrad", {"adagrad", "adamw"});
  ExpectRefused("train " + model + "--lr nan", {"lr"});
  ExpectRefused("train " + model + "--betas 0.9", {"--betas"});
  ExpectRefused("train " + model + "--betas 0.9,1.5", {"1.5"});
  ExpectRefused("train " + model + "--steps 0", {"--steps"});
  ExpectRefused("train " + model + "--np 0", {"--np 0"});
  ExpectRefused("train " + model + "--np x", {"--np"});
  ExpectRefused("train " + model + "--data none.safetensors", {"none.safetensors"});
  ExpectRefused("train " + model + "--data " + kData + "tiny-mlp.ref.safetensors",
                {"tiny-mlp.ref.safetensors", "input_ids", "labels"});
  ExpectRefused("train " + model + "--data " + kData + "tiny-moe.ref.safetensors", {"input_ids", "[4,16]", "[4,32]"});
  ExpectRefused("train " + model + "--weights " + kData + "tiny-mlp.ref.safetensors", {"tiny-mlp", "none of its"});
  ExpectRefused("train " + model + "--seed -1", {"--seed"});
  ExpectRefused("train " + model + "--steps 30 --reference " + kData + "tiny-gpt2.ref.safetensors", {"20 losses", "30"});
  RunOutput run = RunHeddle("train " + kData + "tiny-mlp.onnx --optimizer sgd --lr 1e5 --steps 50");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("--lr"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace heddle
