// Compares the expert's plan with Megatron.
#include "plan/expert.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

class Expert : public ::testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kQuiet); }
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }

  void Use(const std::string& name, const Degrees& degrees,
           const std::string& cluster = "local:16") {
    model_ = LoadTiny(name);
    plan_ = ExpertPlan(model_, LoadCluster(cluster), degrees);
    EXPECT_EQ(Verify(plan_, model_), std::vector<std::string>());
  }

  struct Expected {
    std::string value, strategy;
  };
  void Expect(const std::vector<Expected>& all) {
    for (const auto& [value, strategy] : all) {
      EXPECT_EQ(StrategyOf(model_, plan_, value), strategy) << value;
    }
  }

  Model model_;
  Plan plan_;
};

TEST_F(Expert, TensorParallelGpt2) {
  Use("tiny-gpt2", {.dp = 2, .tp = 2});
  Expect({{"embedding", "Gather dp=i0 tp=v"},
          {"embedding_1", "Gather "},
          {"add_1", "Add dp=x0"},
          {"layer_norm", "LayerNorm dp=a0"},
          {"view_2", "Linear dp=i0 tp=j"},
          {"getitem", "Split dp=d0 tp=j"},
          {"view_5", "Reshape dp=p0 tp=p2"},
          {"matmul_1", "Attention dp=b0 tp=h"},
          {"view_7", "Linear dp=i0 tp=k"},
          {"add_5", "Add dp=x0"},
          {"layer_norm_1", "LayerNorm dp=a0"},
          {"view_9", "Linear dp=i0 tp=j"},
          {"mul_4", "Gelu dp=x0 tp=x2"},
          {"view_11", "Linear dp=i0 tp=k"},
          {"linear", "Linear dp=i0 tp=j"},
          {"cross_entropy_loss.0", "LabelCount dp=i0"},
          {"cross_entropy_loss", "CrossEntropy dp=n tp=c"}});
}

TEST_F(Expert, DataExpertContextAndTensorAxesTogether) {
  Use("tiny-moe", {.dp = 4, .tp = 2, .cp = 2, .ep = 2});
  EXPECT_EQ(plan_.stages[0].mesh.axes.size(), 4u);
  Program program = Lower(model_, plan_);
  EXPECT_EQ(program.device_count(), 16);
  EXPECT_EQ(Verify(program), std::vector<std::string>());
}

TEST_F(Expert, SequenceParallelSplitsWhatTensorParallelLeaves) {
  Use("tiny-gpt2", {.dp = 2, .tp = 2, .sp = true});
  Expect({{"embedding", "Gather dp=i0 tp=v"},
          {"add_1", "Add dp=x0 tp=x1"},
          {"layer_norm", "LayerNorm dp=a0 tp=a1"},
          {"view_2", "Linear dp=i0 tp=j"},
          {"matmul_1", "Attention dp=b0 tp=h"},
          {"view_7", "Linear dp=i0 tp=k"},
          {"add_5", "Add dp=x0 tp=x1"},
          {"cross_entropy_loss", "CrossEntropy dp=n tp=c"}});
}

TEST_F(Expert, TensorParallelLlama) {
  Use("tiny-llama", {.dp = 2, .tp = 2});
  Expect({{"embedding", "Gather dp=i0 tp=v"},
          {"mul_3", "RMSNorm dp=a0"},
          {"linear", "Linear dp=i0 tp=j"},
          {"linear_1", "Linear dp=i0 tp=j"},
          {"mul_4", "Mul dp=x0 tp=x1"},
          {"cat_2", "Concat dp=d0 tp=d1"},
          {"matmul_2", "Attention dp=b0 tp=h"},
          {"linear_3", "Linear dp=i0 tp=k"},
          {"add_7", "Add dp=x0"},
          {"linear_4", "Linear dp=i0 tp=j"},
          {"silu", "Silu dp=x0 tp=x2"},
          {"mul_11", "Mul dp=x0 tp=x2"},
          {"linear_6", "Linear dp=i0 tp=k"},
          {"cross_entropy_loss", "CrossEntropy dp=n tp=c"}});
}

TEST_F(Expert, FewerKeyHeadsThanRanksAreNotSplit) {
  Use("tiny-llama", {.tp = 4});
  Expect({{"linear", "Linear tp=j"}, {"linear_1", "Linear "}, {"linear_2", "Linear "}});
}

TEST_F(Expert, ContextParallelGathersKeysAndValues) {
  Use("tiny-llama", {.cp = 2});
  Expect({{"embedding", "Gather cp=i1"},
          {"mul_3", "RMSNorm cp=a1"},
          {"linear_1", "Linear cp=i1"},
          {"matmul_2", "Attention cp=i"},
          {"linear_6", "Linear cp=i1"}});
}

TEST_F(Expert, ExpertsOverTheDataAxis) {
  Use("tiny-moe", {.dp = 4, .ep = 4});
  EXPECT_EQ(plan_.stages[0].mesh.axes, (std::vector<MeshAxis>{{"dp", 4}}));
  Expect({{"linear_3", "Linear dp=i0"},
          {"linear_4", "Linear dp=i0"},  // the router
          {"einsum", "Einsum dp=b"},
          {"einsum_1", "Einsum dp=e"},
          {"relu", "Relu dp=x0"},
          {"einsum_2", "Einsum dp=e"},
          {"einsum_3", "Einsum dp=b"}});
}

TEST_F(Expert, ExpertsOverPartOfTheDataAxis) {
  Use("tiny-moe", {.dp = 4, .tp = 2, .ep = 2});
  EXPECT_EQ(plan_.stages[0].mesh.axes, (std::vector<MeshAxis>{{"dp", 2}, {"ep", 2}, {"tp", 2}}));
  Expect({{"linear_3", "Linear dp=i0 ep=i0 tp=k"},
          {"linear_4", "Linear dp=i0 ep=i0"},
          {"einsum_1", "Einsum dp=b ep=e tp=f"},
          {"relu", "Relu dp=x1 ep=x0 tp=x3"},
          {"einsum_2", "Einsum dp=b ep=e tp=f"},
          {"einsum_3", "Einsum dp=b ep=b"}});
}

TEST_F(Expert, ConvolutionNetsAreDataParallel) {
  Use("tiny-cnn", {.dp = 4});
  for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
    ASSERT_EQ(plan_.stages[0].strategies[n].size(), 1u);
    EXPECT_TRUE(plan_.stages[0].strategies[n][0].is_split()) << model_.graph.nodes[n].op;
  }
}

TEST_F(Expert, StagesAreConsecutiveRunsAndChunksComeRoundAgain) {
  Use("tiny-gpt2", {.dp = 2, .tp = 2, .pp = 2, .chunks = 2});
  ASSERT_EQ(plan_.stages.size(), 4u);
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(plan_.stages[s].mesh.first, s % 2 == 0 ? 0 : 4);
    EXPECT_EQ(plan_.stages[s].mesh.size(), 4);
  }
  EXPECT_EQ(DeviceCount(plan_), 8);
}

TEST_F(Expert, PlansOfAllTinyModelsAreSound) {
  for (const std::string& name : kTinyModels) {
    Model model = LoadTiny(name);
    for (const Degrees& degrees : ManyDegrees()) {
      if (!Fits(name, degrees)) continue;
      Plan plan = ExpertPlan(model, LoadCluster("local:16"), degrees);
      EXPECT_EQ(Verify(plan, model), std::vector<std::string>())
          << name << " dp " << degrees.dp << " tp " << degrees.tp << " pp " << degrees.pp;
      EXPECT_EQ(plan, ExpertPlan(model, LoadCluster("local:16"), degrees));
    }
  }
}

TEST_F(Expert, Gpt3OnAThousandDevices) {
  Model model = Analyse(LoadModel("gpt3-175b"));
  Plan plan =
      ExpertPlan(model, LoadCluster("dgx-h100:128"), {.dp = 8, .tp = 8, .pp = 16, .sp = true});
  EXPECT_EQ(Verify(plan, model), std::vector<std::string>());
  ASSERT_EQ(plan.stages.size(), 16u);
  std::string layer = "transformer.h.7.";
  for (auto [value, strategy] :
       {std::pair("ln_1", "LayerNorm dp=a0 tp=a1"), std::pair("attn.c_attn", "Linear dp=i0 tp=j"),
        std::pair("split.0", "Split dp=d0 tp=j"), std::pair("reshape", "Reshape dp=p0 tp=p2"),
        std::pair("attention", "Attention dp=b0 tp=h"),
        std::pair("attn.c_proj", "Linear dp=i0 tp=k"), std::pair("add", "Add dp=x0 tp=x1"),
        std::pair("mlp.c_fc", "Linear dp=i0 tp=j"), std::pair("gelu", "Gelu dp=x0 tp=x2"),
        std::pair("mlp.c_proj", "Linear dp=i0 tp=k")}) {
    EXPECT_EQ(StrategyOf(model, plan, layer + value), strategy) << value;
  }
  // Each stage has six of the 96 layers.
  for (const Stage& stage : plan.stages) {
    int layers = 0;
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      layers += model.blocks[static_cast<size_t>(b)].chain >= 0 ? 1 : 0;
    }
    EXPECT_EQ(layers, 6);
  }
}

std::string Refusal(const std::string& name, const Degrees& degrees) {
  try {
    ExpertPlan(LoadTiny(name), LoadCluster("local:16"), degrees);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(Expert, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Refusal("tiny-gpt2", {.dp = 2, .tp = 3, .pp = 4}),
            "dp 2 x cp 1 x tp 3 x pp 4 = 24 devices, more than the 16 of the cluster: "
            "try dp 1 or tp 2 or pp 2");
  EXPECT_EQ(Refusal("tiny-gpt2", {.tp = 0}), "tp 0: a degree is at least 1");
  EXPECT_EQ(Refusal("tiny-gpt2", {.dp = int64_t{1} << 40, .tp = int64_t{1} << 40}),
            "the number of devices: 1099511627776 * 1099511627776 overflows 64 bits");
  EXPECT_EQ(Refusal("tiny-gpt2", {.microbatches = 3}),
            "a batch of 4 is not divisible into 3 micro-batches: try 2, or another batch");
  EXPECT_EQ(Refusal("tiny-gpt2", {.dp = 2, .microbatches = 4}),
            "a micro-batch of 1 samples (a batch of 4 / 4) is less than dp 2: try 2 micro-batches, "
            "dp 1 or "
            "a batch of 8");
  EXPECT_EQ(
      Refusal("tiny-gpt2", {.dp = 8}),
      "a micro-batch of 4 samples (a batch of 4 / 1) is less than dp 8: try dp 4 or a batch of 8");
  EXPECT_EQ(Refusal("tiny-gpt2", {.pp = 12}),
            "pp 12 x 1 chunks = 12 stages, and the model has 9 blocks: pp can be at most 9");
  EXPECT_EQ(Refusal("tiny-moe", {.dp = 4, .ep = 3}),
            "ep 3 does not divide dp 4: experts are spread over the data axis; try ep 1");
  EXPECT_EQ(Refusal("tiny-gpt2", {.dp = 2, .ep = 2}),
            "ep 2: the model has no experts to spread over 2 devices; use ep 1");
  EXPECT_EQ(Refusal("tiny-gpt2", {.sp = true}),
            "sp splits the sequence over the tensor axis: it needs tp of at least 2, not 1");
  EXPECT_EQ(Refusal("tiny-cnn", {.cp = 2}),
            "cp 2: the model has no input of tokens [batch, sequence] whose sequence could be "
            "split; use cp "
            "1 and no sp");
  EXPECT_EQ(Refusal("tiny-gpt2", {.zero = 4}), "zero 4: there are levels 0, 1, 2 and 3");
  EXPECT_EQ(Refusal("tiny-gpt2", {.precision = DType::kF64}),
            "precision f64: use f32, bf16 or f16");
  EXPECT_EQ(Refusal("tiny-gpt2", {.gradients = DType::kI8}), "gradients i8: use f32, bf16 or f16");
  EXPECT_EQ(Refusal("tiny-gpt2", {.products = Products::kFp8}),
            "products of fp8 are made of bf16 or f16, not of f32: use one of them");
  EXPECT_EQ(Refusal("tiny-gpt2", {.dp = 4, .zero = 1, .zero_ranks = 3}),
            "zero_ranks 3 does not divide dp 4: state is split among neighbours along it");
  EXPECT_EQ(Refusal("tiny-moe", {.dp = 4, .ep = 2, .zero = 1, .zero_ranks = 2}),
            "zero_ranks 2 with ep 2: one of them can part the data axis; use zero_ranks 4");
}

TEST_F(Expert, PrecisionIsAsAskedFor) {
  Use("tiny-gpt2", {.precision = DType::kF16, .gradients = DType::kF16});
  EXPECT_EQ(plan_.precision,
            (Precision{DType::kF16, DType::kF16, DType::kF32, DType::kF32, Products::kAsCompute}));
  Use("tiny-gpt2", {.precision = DType::kBF16, .products = Products::kFp8});
  EXPECT_EQ(plan_.precision,
            (Precision{DType::kBF16, DType::kF32, DType::kF32, DType::kF32, Products::kFp8}));
}

TEST_F(Expert, StateIsSplitAmongNeighboursOnly) {
  Use("tiny-gpt2", {.dp = 4, .tp = 2, .zero = 3, .zero_ranks = 2});
  ASSERT_EQ(plan_.stages[0].mesh.axes.size(), 3u);
  EXPECT_EQ(plan_.stages[0].mesh.axes[1], (MeshAxis{"shard", 2}));
  EXPECT_EQ(plan_.zero.axes, std::vector<std::string>{"shard"});
  Expect({{"layer_norm", "LayerNorm dp=a0 shard=a0"}, {"view_2", "Linear dp=i0 shard=i0 tp=j"}});
  Use("tiny-gpt2", {.dp = 4, .zero = 1, .zero_ranks = 4});
  EXPECT_EQ(plan_.zero.axes, std::vector<std::string>{"dp"});
}

std::vector<int64_t> LayersPerStage(const Model& model, const Plan& plan) {
  std::vector<int64_t> layers;
  for (const Stage& stage : plan.stages) {
    layers.push_back(0);
    for (int b = stage.first_block; b < stage.last_block; ++b)
      layers.back() += model.blocks[static_cast<size_t>(b)].chain >= 0 ? 1 : 0;
  }
  return layers;
}

TEST_F(Expert, LayersPerStageAreAsAskedFor) {
  Model model = Analyse(LoadModel("gpt2:layers=6,batch=8"));
  ASSERT_EQ(LayersOf(model), 6);
  for (const std::vector<int64_t>& layers :
       {std::vector<int64_t>{1, 5}, {5, 1}, {0, 6}, {6, 0}, {1, 2, 2, 1}, {0, 3, 3, 0}}) {
    Degrees degrees{.pp = static_cast<int64_t>(layers.size()), .layers_per_stage = layers};
    Plan plan = ExpertPlan(model, LoadCluster("local:4"), degrees);
    EXPECT_EQ(Verify(plan, model), std::vector<std::string>());
    EXPECT_EQ(LayersPerStage(model, plan), layers);
  }
  Plan plan = ExpertPlan(model, LoadCluster("local:2"),
                         {.pp = 2,
                          .microbatches = 2,
                          .chunks = 2,
                          .schedule = "interleaved",
                          .layers_per_stage = {2, 1, 1, 2}});
  EXPECT_EQ(LayersPerStage(model, plan), (std::vector<int64_t>{2, 1, 1, 2}));
}

// Layers of two kinds form two chains.
TEST_F(Expert, LayersOfAllChainsAreCounted) {
  Model model = Analyse(LoadModel("moe:layers=8,dense_layers=3,hidden=64,heads=4,vocab=64,seq=64"));
  ASSERT_EQ(model.folding.chains.size(), 2u);
  ASSERT_EQ(LayersOf(model), 8);
  Plan plan = ExpertPlan(model, LoadCluster("local:3"), {.pp = 3, .layers_per_stage = {3, 4, 1}});
  EXPECT_EQ(Verify(plan, model), std::vector<std::string>());
  EXPECT_EQ(LayersPerStage(model, plan), (std::vector<int64_t>{3, 4, 1}));
}

TEST_F(Expert, RefusesLayersThatAreNotTheModels) {
  auto refusal = [](int64_t pp, std::vector<int64_t> layers) {
    return Refusal("tiny-gpt2", {.pp = pp, .layers_per_stage = std::move(layers)});
  };
  EXPECT_EQ(refusal(2, {1, 1, 1}),
            "layers per stage are given for 3 stages, and there are 2: pp x chunks");
  EXPECT_EQ(refusal(2, {4, 4}),
            "layers per stage 4,4 are 8 layers, and the model has 3 repeated blocks");
  EXPECT_EQ(refusal(2, {-1, 3}), "stage 0 has -1 layers: use 0 or more");
  EXPECT_EQ(refusal(3, {1, 0, 1}),
            "stage 1 has 0 layers: only the first and the last stage can have none");
  EXPECT_EQ(
      refusal(2, {INT64_MAX, INT64_MAX}),
      "the layers of all stages: 9223372036854775807 + 9223372036854775807 overflows 64 bits");
}

}  // namespace
}  // namespace heddle
