// Compares predicted device memory with closed forms: kept bytes of a transformer layer, ZeRO, pipelines. Checks that
// nothing leaks.
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

// Activations on device 0 at the end of the last forward half.
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

// Kept bytes of one additional layer, in units of seq x batch x hidden.
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

// Without dropout there are no dropout masks (2 x 1 for the residuals, 1 a s/h for the probabilities), nor the result
// of dropout on probabilities (2 a s/h): the product with the values keeps the result of the softmax itself.
TEST(LayerMemory, WithoutDropoutLosesTheMasks) {
  ExpectKept("t 1, no dropout: 32 + 2as/h", "attention=unfused", {.precision = kHalf},
             32 + 2 * kScores);
  ExpectKept("t 8, no dropout: 8 + 24/t + 2as/ht", "attention=unfused",
             {.tp = 8, .precision = kHalf}, 8 + 24 / 8.0 + 2 * kScores / 8);
}

// A fused kernel keeps q, k, v, its result (of which the next product keeps a transposed copy) and one number per row.
TEST(LayerMemory, FusedAttentionKeepsNoScores) {
  double rows = 4.0 * kHeads / kHidden;
  ExpectKept("t 1, fused: 34 + 4a/h", "dropout=0", {.precision = kHalf}, 34 + rows);
}

// ---- ZeRO.

constexpr std::string_view kSmallGpt =
    "gpt:layers=6,hidden=256,heads=8,seq=64,batch=16,vocab=1000,tied=0,position=rope";

struct Elements {
  int64_t blocks = 0,
          others = 0;  // parameters of repeated blocks, and all others, padded as in groups
};
Elements ElementsOf(const Program& program) {
  Elements elements;
  const StageProgram& stage = program.stages.front();
  for (const ParameterGroup& group : stage.groups) {
    (group.zero == 3 ? elements.blocks : elements.others) +=
        FlatElements(stage, group, PositionIn(stage, 0));
  }
  return elements;
}

int64_t MostGradients(const MemoryTimeline& timeline) {
  int64_t most = 0;
  for (const MemoryKinds& kinds : timeline.kinds) most = std::max(most, kinds.gradients);
  return most;
}

// Rajbhandari et al., "ZeRO": with 16-bit weights, a parameter has 2 bytes of weights, 4 of gradients (here in fp32)
// and 12 of optimizer state. Each level splits one more of them over the data axis.
TEST(ZeroMemory, SplitsOptimizerThenGradientsThenWeights) {
  Model model = Analyse(LoadModel(std::string(kSmallGpt)));
  Cluster cluster = LoadCluster("dgx-h100:1");
  for (DType compute : {DType::kBF16, DType::kF32}) {
    int64_t weight = SizeOf(compute), state = compute == DType::kBF16 ? 12 : 8;
    for (int64_t dp : {2, 4, 8}) {
      for (int zero = 0; zero <= 3; ++zero) {
        SCOPED_TRACE(fmt::format("{} dp {} zero {}", Name(compute), dp, zero));
        Plan plan = ExpertPlan(model, cluster,
                               {.dp = dp, .microbatches = 2, .zero = zero, .precision = compute});
        plan.bucket_bytes = 1 << 20;
        Program program = Lower(model, plan);
        MemoryTimeline timeline = Replay(MemoryModel(program), 0, {.kinds = true});
        Elements elements = ElementsOf(program);
        int64_t all = elements.blocks + elements.others;
        EXPECT_GE(all, 6 * 12 * 256 * 256 + 2 * 1000 * 256);
        EXPECT_EQ(timeline.held.weights,
                  weight * (elements.others + elements.blocks / (zero == 3 ? dp : 1)));
        EXPECT_EQ(timeline.held.optimizer, state * all / (zero > 0 ? dp : 1));
        EXPECT_EQ(timeline.held.gradients, 0);
        EXPECT_EQ(timeline.held.activations, 0);
        if (zero < 2) {
          EXPECT_EQ(MostGradients(timeline), 4 * all);
        } else {
          // The split gradients, and the whole ones that a backward half adds to: the parameter groups of a block, of
          // which the first and last are shared with other blocks.
          EXPECT_GE(MostGradients(timeline), 4 * all / dp);
          EXPECT_LE(MostGradients(timeline),
                    4 * all / dp + 4 * 13 * 256 * 256 + 2 * plan.bucket_bytes);
        }
      }
    }
  }
}

// ---- Pipelines.

int64_t MostActivations(const Program& program, int64_t device) {
  int64_t most = 0;
  for (const MemoryKinds& kinds : Replay(MemoryModel(program), device, {.kinds = true}).kinds) {
    most = std::max(most, kinds.activations);
  }
  return most;
}

// In 1F1B with p stages, stage i holds the activations of p - i micro-batches. In GPipe every stage holds those of all
// m.
TEST(PipelineMemory, HoldsWhatIsInFlight) {
  constexpr int64_t kStages = 4, kMicrobatches = 12;
  std::string model =
      "gpt:layers=12,hidden=1024,heads=16,seq=512,batch=12,vocab=128,attention=unfused,"
      "dropout=0.1,attention_dropout=0.1";
  auto lower = [&](const std::string& schedule) {
    return LowerExpert(
        model, "local:4",
        {.pp = kStages, .microbatches = kMicrobatches, .schedule = schedule, .precision = kHalf});
  };
  double of_stage = 3 * 512.0 * 1024 * (34 + 5 * 16 * 512 / 1024.0);  // three layers, one sample
  Program one = lower("1f1b"), all = lower("gpipe");
  int64_t second = MostActivations(one, 1), third = MostActivations(one, 2);
  EXPECT_NEAR(static_cast<double>(second - third) / of_stage, 1, 0.01);
  for (int64_t stage : {0, 1, 2}) {
    double held = static_cast<double>(MostActivations(one, stage)) / of_stage;
    EXPECT_NEAR(held, static_cast<double>(kStages - stage), 0.15) << stage;
    held = static_cast<double>(MostActivations(all, stage)) / of_stage;
    EXPECT_NEAR(held, static_cast<double>(kMicrobatches), 0.25) << stage;
  }
  // The difference is exactly the micro-batches in flight.
  EXPECT_EQ(MostActivations(all, 1) - second, (kMicrobatches - 3) * (second - third));
}

// ---- Nothing leaks.

void ExpectClean(const Program& program, int64_t device) {
  MemoryTimeline timeline =
      Replay(MemoryModel(program), device, {.kinds = true, .allocator = true});
  EXPECT_EQ(timeline.left, timeline.held);
  EXPECT_GE(timeline.peak, timeline.held.total());
  EXPECT_EQ(timeline.peak, timeline.peak_kinds.total());
  EXPECT_GE(timeline.allocated, timeline.peak);
  EXPECT_GE(timeline.reserved, timeline.allocated);
  const size_t count = program.RunOf(device).instructions.size();
  ASSERT_EQ(timeline.during.size(), count);
  for (size_t i = 0; i < count; ++i) {
    const MemoryKinds& kinds = timeline.kinds[i];
    EXPECT_GE(timeline.during[i], timeline.after[i]);
    EXPECT_LE(timeline.during[i], timeline.peak);
    EXPECT_EQ(kinds.total(), timeline.after[i]);
    EXPECT_GE(std::min({kinds.weights, kinds.gradients, kinds.optimizer, kinds.activations,
                        kinds.buffers}),
              0);
    EXPECT_EQ(kinds.weights, timeline.held.weights);
    EXPECT_EQ(kinds.optimizer, timeline.held.optimizer);
  }
}

class ReplayTest : public testing::TestWithParam<std::string> {};

TEST_P(ReplayTest, RandomPlansEndWhereTheyBegan) {
  Model model = LoadTiny(GetParam());
  int lowered = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random rng(seed);
    Plan plan = RandomPlan(model, rng);
    AddRandomSync(model, rng, plan);
    plan.cluster = LoadCluster("local:64");
    SCOPED_TRACE(fmt::format("seed {}: {}, {} micro-batches, zero {}", seed, plan.schedule,
                             plan.microbatches, plan.zero.level));
    Program program;
    try {
      program = Lower(model, plan);
    } catch (const InputError&) {
      continue;  // the model forbids micro-batches
    }
    for (const DeviceProgram& run : program.runs) {
      ExpectClean(program, run.devices.front());
      ExpectClean(program, run.devices.back());
    }
    ++lowered;
  }
  EXPECT_GT(lowered, 20);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, ReplayTest, testing::ValuesIn(kTinyModels),
                         [](const auto& info) {
                           std::string name = info.param.substr(5);
                           return name;
                         });

}  // namespace
}  // namespace heddle
