// What devices hold, against closed forms: what a transformer layer keeps, ZeRO, pipelines; and that nothing leaks.
#include "sim/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "random_plan.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

// ---- Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", arXiv 2205.05198.

constexpr int64_t kSeq = 2048, kBatch = 2, kHidden = 6144, kHeads = 64;

std::string GptOf(int layers, std::string_view keys) {
  return fmt::format("gpt:layers={},hidden={},heads={},seq={},batch={},vocab=51200,{}", layers,
                     kHidden, kHeads, kSeq, kBatch, keys);
}

Program LowerExpert(const std::string& model, const std::string& cluster, const Degrees& degrees) {
  Model analysed = Analyse(LoadModel(model));
  return Lower(analysed, ExpertPlan(analysed, LoadCluster(cluster), degrees));
}

// Activations on device 0 when the last forward run has ended.
int64_t AfterForward(const Program& program) {
  MemoryTimeline timeline = Replay(MemoryModel(program), 0, {.kinds = true});
  const std::vector<Instruction>& list = program.RunOf(0).instructions;
  int64_t activations = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    bool forward = list[i].op == Opcode::kRun && list[i].half == Half::kF && !list[i].recompute;
    if (forward) activations = timeline.kinds[i].activations;
  }
  return activations;
}

// What one layer more keeps, in units of seq x batch x hidden.
double KeptOfLayer(std::string_view keys, const Degrees& degrees) {
  int64_t bytes = AfterForward(LowerExpert(GptOf(4, keys), "dgx-h100:1", degrees)) -
                  AfterForward(LowerExpert(GptOf(3, keys), "dgx-h100:1", degrees));
  return static_cast<double>(bytes) / static_cast<double>(kSeq * kBatch * kHidden);
}

constexpr double kScores = static_cast<double>(kHeads) * kSeq / kHidden;  // a s / h

void ExpectKept(std::string_view what, std::string_view keys, const Degrees& degrees,
                double expected) {
  double kept = KeptOfLayer(keys, degrees);
  fmt::print("{:<46} {:>8.3f} sbh, expected {:>8.3f}: {:+.2f} %\n", what, kept, expected,
             100 * (kept / expected - 1));
  EXPECT_NEAR(kept / expected, 1, 0.01) << what;
}

constexpr std::string_view kMegatron = "attention=unfused,dropout=0.1,attention_dropout=0.1";
constexpr DType kHalf = DType::kBF16;

TEST(LayerMemory, IsKorthikantis) {
  using enum RecomputePolicy;
  ExpectKept("t 1: 34 + 5as/h", kMegatron, {.precision = kHalf}, 34 + 5 * kScores);
  ExpectKept("t 8: 10 + 24/t + 5as/ht", kMegatron, {.tp = 8, .precision = kHalf},
             10 + 24 / 8.0 + 5 * kScores / 8);
  ExpectKept("t 1, selective: 34", kMegatron, {.recompute = kSelective, .precision = kHalf}, 34);
  ExpectKept("t 8, selective: 10 + 24/t", kMegatron,
             {.tp = 8, .recompute = kSelective, .precision = kHalf}, 10 + 24 / 8.0);
  ExpectKept("t 1, full: 2", kMegatron, {.recompute = kFull, .precision = kHalf}, 2);
  ExpectKept("t 8, full: 2", kMegatron, {.tp = 8, .recompute = kFull, .precision = kHalf}, 2);
}

// With sequence parallelism.
TEST(LayerMemory, IsKorthikantisSplitOverTokens) {
  using enum RecomputePolicy;
  ExpectKept("t 8, sp: (34 + 5as/h)/t", kMegatron, {.tp = 8, .sp = true, .precision = kHalf},
             (34 + 5 * kScores) / 8);
  ExpectKept("t 8, sp, selective: 34/t", kMegatron,
             {.tp = 8, .sp = true, .recompute = kSelective, .precision = kHalf}, 34 / 8.0);
  ExpectKept("t 8, sp, full: 2/t", kMegatron,
             {.tp = 8, .sp = true, .recompute = kFull, .precision = kHalf}, 2 / 8.0);
}

// Without dropout the masks go, of the residuals 2 x 1 and of the probabilities 1 a s/h, and with the latter what
// dropout gave, 2 a s/h: the softmax's own result is what the product with the values keeps.
TEST(LayerMemory, WithoutDropoutLosesTheMasks) {
  ExpectKept("t 1, no dropout: 32 + 2as/h", "attention=unfused", {.precision = kHalf},
             32 + 2 * kScores);
  ExpectKept("t 8, no dropout: 8 + 24/t + 2as/ht", "attention=unfused",
             {.tp = 8, .precision = kHalf}, 8 + 24 / 8.0 + 2 * kScores / 8);
}

// A fused kernel keeps q, k, v, its result (which the next product keeps too, moved) and one number per row.
TEST(LayerMemory, FusedAttentionKeepsNoScores) {
  double rows = 4.0 * kHeads / kHidden;
  ExpectKept("t 1, fused: 34 + 4a/h", "dropout=0", {.precision = kHalf}, 34 + rows);
}

}  // namespace
}  // namespace heddle
