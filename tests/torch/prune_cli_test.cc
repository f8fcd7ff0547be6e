// Pruning from the command line: masks, training with masks, and checkpoints of kept weights.
#include <gtest/gtest.h>

#include "../run_binary.h"
#include "base/json.h"
#include "graph/safetensors.h"

namespace heddle {
namespace {

const std::string kPrunedModel = "gpt:layers=2,hidden=32,heads=2,seq=16,vocab=64,batch=8";

// The last loss of "loss 4.1592 -> 4.0889 in 6 steps".
std::string LastLoss(const std::string& out) {
  size_t at = out.find(" -> ");
  return at == std::string::npos ? "" : out.substr(at, 10);
}

RunOutput Done(const std::string& arguments) {
  RunOutput run = RunHeddle(arguments);
  EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
  return run;
}

TEST(PruneCli, MasksTrainAndCheckpointsHoldWhatIsKept) {
  TempFolder folder;
  std::string mask = folder / "mask.safetensors", saved = folder / "saved";
  Json said = ParseJson(
      Done("prune " + kPrunedModel + " --sparsity 0.75 --keep '*wpe*' --json -o " + mask).out, "");
  EXPECT_NEAR(said["sparsity"].get<double>(), 0.75, 0.01);
  SafetensorsFile masks = SafetensorsFile::Open(mask);
  for (const SafetensorsEntry& entry : masks.tensors()) {
    EXPECT_EQ(entry.type.dtype, DType::kBool);
    EXPECT_EQ(entry.name.find("wpe"), std::string::npos);
  }
  std::string train = "train " + kPrunedModel + " --mask " + mask + " --threads 1 ";
  RunOutput whole = Done(train + "--steps 6");
  // Two ranks with ZeRO save the checkpoint, and one rank resumes from it.
  Done(train + "--steps 3 --dp 2 --zero 1 --transport threads --checkpoint " + saved);
  RunOutput resumed = Done(train + "--steps 6 --resume --checkpoint " + saved);
  EXPECT_NE(LastLoss(whole.out), "");
  EXPECT_EQ(LastLoss(whole.out), LastLoss(resumed.out));
  // Pruned weights are zero in the export and stay zero: its mask is that of the training.
  Done("prune " + saved + " --sparsity 0.75 --keep '*wpe*' -o " + folder / "again.safetensors");
  SafetensorsFile again = SafetensorsFile::Open(folder / "again.safetensors");
  for (const auto& [name, kept] : masks.LoadAll()) EXPECT_EQ(again.Load(name).data, kept.data);
  // With --override, a dense run and a run with another mask resume from it.
  std::string dense =
      "train " + kPrunedModel + " --threads 1 --steps 7 --resume --checkpoint " + saved;
  ExpectRefused(dense, {"another experiment", "mask was ", " and is none", "--override"});
  Done(dense + " --override");
  std::string other = folder / "other.safetensors";
  Done("prune " + kPrunedModel + " --method random --seed 5 --sparsity 0.5 -o " + other);
  Done("train " + kPrunedModel + " --threads 1 --steps 9 --resume --override --checkpoint " +
       saved + " --mask " + other);
}

TEST(PruneCli, EarlyBirdsSettle) {
  TempFolder folder;
  RunOutput run =
      Done("prune " + kPrunedModel +
           " --method early-bird --every 2 --steps 60 --window 3 --threshold 0.2 --threads 1 -o " +
           folder / "mask.safetensors");
  EXPECT_NE(run.out.find("masks differ by at most"), std::string::npos) << run.out;
}

TEST(PruneCli, MistakesAreOneLine) {
  TempFolder folder;
  std::string mask = folder / "mask.safetensors", plan = folder / "plan.json";
  ExpectRefused("prune " + kPrunedModel + " --sparsity 1.5 -o " + mask, {"--sparsity: 1.5"});
  ExpectRefused("prune " + kPrunedModel + " --keep nothing -o " + mask, {"--keep nothing"});
  EXPECT_FALSE(std::filesystem::exists(mask));
  Done("prune " + kPrunedModel + " -o " + mask);
  ExpectRefused(
      "train gpt:layers=1,hidden=48,heads=2,seq=16,vocab=64,batch=8 --steps 1 --mask " + mask,
      {"mask.safetensors", "shape"});
  Done("plan " + kPrunedModel + " --cluster local:1 --sparsity 0.5 -o " + plan);
  ExpectRefused("train " + plan + " --steps 1", {"pruned", "--mask"});
}

}  // namespace
}  // namespace heddle
