// Compares the bytes of a pruned model's state, measured as storages during training, with SAMO's formula.
#include <gtest/gtest.h>

#include "../run_binary.h"
#include "base/json.h"

namespace heddle {
namespace {

// Large enough that the dense biases and norms are a small part.
const std::string kStateModel = "gpt:layers=2,hidden=256,heads=4,seq=8,vocab=512,batch=4";
constexpr double kStateParameters = 2 * (12.0 * 256 * 256 + 13 * 256) + (512 + 8 + 2) * 256.0;

Json StateOf(const std::string& arguments) {
  RunOutput run = RunHeddle("train " + kStateModel +
                            " --precision bf16 --threads 1 --steps 2 --json " + arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return ParseJson(run.out, "").at("state_bytes");
}

TEST(PrunedState, IsWithinTheFormula) {
  TempFolder folder;
  std::string mask = folder / "mask.safetensors";
  for (int microbatches : {1, 4}) {
    std::string parts = " --microbatches " + std::to_string(microbatches);
    double dense = StateOf(parts)["total"].get<double>() / kStateParameters;
    EXPECT_LE(dense, 18.1);  // less than the paper's 20, because gradients are stored once
    double last = dense;
    for (double p : microbatches == 1 ? std::vector{0.5, 0.8, 0.9} : std::vector{0.9}) {
      RunOutput pruned = RunHeddle("prune " + kStateModel + " --method random --sparsity " +
                                   std::to_string(p) + " -o " + mask);
      ASSERT_EQ(pruned.status, 0) << pruned.err;
      Json state = StateOf("--mask " + mask + parts);
      double all = state["total"].get<double>() / kStateParameters;
      EXPECT_LE(all, 2 + 24 * (1 - p)) << p;
      EXPECT_GE(all, 2 + 18 * (1 - p)) << p;  // weights, index, master, moments and bf16 gradients
      EXPECT_NEAR(state["weights"].get<double>() / kStateParameters, 2, 0.02);
      EXPECT_NEAR(state["index"].get<double>() / kStateParameters, 4 * (1 - p), 0.03);
      EXPECT_LT(all, last);
      last = all;
    }
  }
}

TEST(PrunedState, RanksWithUnlikeMasksAreRefused) {
  TempFolder folder;
  std::string a = folder / "a.safetensors", b = folder / "b.safetensors";
  for (const auto& [path, seed] : {std::pair(a, 1), std::pair(b, 2)}) {
    RunOutput run = RunHeddle("prune " + kStateModel + " --method random --sparsity 0.5 --seed " +
                              std::to_string(seed) + " -o " + path);
    ASSERT_EQ(run.status, 0) << run.err;
  }
  std::string program = HEDDLE_BINARY;
  std::string train = program + " train " + kStateModel + " --dp 2 --steps 1 --mask ";
  std::string command =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 1 " +
      train + a + " : -np 1 " + train + b + " >" + folder / "out" + " 2>" + folder / "err";
  int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2) << Slurp(folder / "err");
  std::string err = Slurp(folder / "err");
  size_t first = err.find("heddle: ");
  ASSERT_NE(first, std::string::npos) << err;
  EXPECT_NE(err.find("unlike masks", first), std::string::npos) << err;
  EXPECT_EQ(err.find("heddle: ", first + 1), std::string::npos) << err;
  EXPECT_EQ(Slurp(folder / "out").find("->"), std::string::npos);  // no summary of losses
}

}  // namespace
}  // namespace heddle
