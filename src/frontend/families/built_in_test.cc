#include "frontend/families/built_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "frontend/load.h"
#include "graph/text.h"
#include "ops/analysis.h"
#include "ops/op.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

int64_t Parameters(const std::string& expression) {
  Graph graph = BuildModel(expression);
  int64_t count = 0;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter))
    count += ElementCount(graph.value(id).type.shape);
  return count;
}

std::string BuiltInError(const std::string& expression) {
  try {
    BuildModel(expression);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// A small model of every variant that a key selects.
const std::vector<std::string>& Variants() {
  static const std::string gpt = "gpt:layers=4,hidden=48,heads=6,seq=16,vocab=97,batch=2";
  static const std::string llama =
      "llama:layers=4,hidden=48,heads=6,ffn=40,seq=16,vocab=97,batch=2";
  static const std::string moe = "moe:layers=4,hidden=48,heads=6,seq=16,vocab=97,batch=2,experts=4";
  static const std::vector<std::string> variants = {
      gpt,
      gpt + ",dropout=0.1",
      gpt + ",attention=unfused,dropout=0.1,attention_dropout=0.1",
      gpt + ",attention=unfused,position=relative,causal=0",
      gpt + ",attention=unfused,position=alibi",
      gpt + ",embedding_dropout=0.2,mlp=gelu_erf,norm_eps=1e-3,out_bias=0,mlp_bias=0",
      gpt + ",position=rope,rotary_dim=4",
      gpt + ",position=alibi,embedding_norm=1,qkv=interleaved,names=bloom",
      gpt + ",position=relative,norm=rmsnorm",
      gpt + ",position=none,causal=0",
      gpt + ",parallel=1,kv_heads=1,bias=0,norm_bias=0,mlp=swiglu,position=rope,names=llama",
      gpt + ",parallel=1,two_norms=1,names=neox,tied=0",
      gpt + ",names=opt,mlp=relu,qkv=separate",
      gpt + ",mlp=squared_relu",
      gpt + ",mlp=geglu,head_dim=10",
      gpt + ",mlp=silu,positions=32",
      llama,
      llama + ",kv_heads=2,qkv_bias=1,qk_norm=1",
      llama + ",tied=1,norm=layernorm",
      llama + ",rope_theta=500000,norm_eps=1e-5,mlp=geglu_erf,out_bias=1,mlp_bias=1",
      llama + ",attention=unfused,kv_heads=2",
      llama + ",attention=mla,q_lora=12,kv_lora=10,rope_head_dim=6",
      moe,
      moe + ",mlp=swiglu,group=8,capacity_factor=1.3,shared_experts=2,expert_ffn=24,top_k=3",
      "bert:layers=4,hidden=48,heads=6,seq=16,vocab=97,batch=2,dropout=0.1",
      "bert:layers=4,hidden=48,heads=6,seq=16,vocab=97,batch=2,attention_dropout=0.1,mlp=relu,norm_"
      "eps=1e-5",
      "t5:layers=4,hidden=48,heads=6,head_dim=10,seq=16,vocab=97,batch=2",
      "t5:layers=4,hidden=48,heads=6,head_dim=10,seq=16,vocab=97,batch=2,attention_dropout=0.1,"
      "norm_eps=1e-5",
      "vit:layers=4,hidden=48,heads=6,image=32,patch=8,classes=10,batch=2,attention_dropout=0.1,"
      "qkv_bias=0,mlp=gelu",
      "t5:layers=4,decoder_layers=2,hidden=48,heads=6,seq=16,vocab=97,mlp=gated_gelu,tied=0,"
      "dropout=0.1",
      "vit:layers=4,hidden=48,heads=6,image=32,patch=8,classes=10,batch=2,dropout=0.1",
      "resnet:depth=18,channels=8,image=64,batch=2",
      "wide-resnet:depth=50,channels=8,image=64,batch=2",
      "vgg:depth=11,ffn=32,batch=1",
      "inception:image=75,batch=2",
  };
  return variants;
}

TEST(BuiltIn, EveryVariantIsSoundAndReadsBack) {
  for (const std::string& expression : Variants()) {
    Graph graph = BuildModel(expression);
    EXPECT_EQ(VerifyModel(graph), std::vector<std::string>{}) << expression;
    EXPECT_NO_THROW(CheckTypes(graph)) << expression;
    std::string text = ToText(graph);
    EXPECT_EQ(ToText(FromText(text, expression)), text) << expression;
    ModelSize size = Measure(graph);
    EXPECT_GT(size.work.forward.contraction_flops, 0) << expression;
    Rules rules = MakeRules(graph);
    EXPECT_TRUE(FindGradients(graph, rules).needed[graph.outputs[0].index()]) << expression;
    for (const Value& value : graph.values)
      EXPECT_TRUE(value.kind != ValueKind::kParameter || !value.data);
  }
}

// One op of a layer as folding compares it: its kind, and the places of its operands relative to it within the layer.
std::string Signature(const Graph& graph, size_t index, size_t period) {
  const Node& node = graph.nodes[index];
  std::string text = node.op;
  for (ValueId id : node.results) text += " " + ToString(graph.value(id).type);
  for (ValueId id : node.operands) {
    const Value& value = graph.value(id);
    text += " " + ToString(value.type);
    if (value.kind != ValueKind::kActivation) {
      text += std::to_string(static_cast<int>(value.kind));
      continue;
    }
    size_t back = index - static_cast<size_t>(value.producer.value);
    text += back <= 2 * period ? "-" + std::to_string(back) : " shared";
  }
  return text;
}

// A model with one more layer has one more copy of the same ops in the same order.
TEST(BuiltIn, LayersAreEqual) {
  for (const std::string& expression : Variants()) {
    if (expression.find("layers=4") == std::string::npos || expression.starts_with("t5")) continue;
    std::string fewer = expression;
    fewer.replace(fewer.find("layers=4"), 8, "layers=3");
    Graph graph = BuildModel(expression);
    size_t period = graph.nodes.size() - BuildModel(fewer).nodes.size();
    ASSERT_GT(period, 0u);
    // Layers begin somewhere after the embedding and end before the head: finds three equal runs.
    size_t tail = 8;
    size_t begin = graph.nodes.size() - tail - 3 * period;
    for (size_t i = begin; i < begin + 2 * period; ++i) {
      ASSERT_EQ(Signature(graph, i, period), Signature(graph, i + period, period))
          << expression << " " << i;
    }
  }
}

TEST(BuiltIn, EveryNameBuildsAndIsUnique) {
  std::set<std::string> names;
  for (const BuiltInInfo& info : BuiltInModels()) {
    EXPECT_TRUE(names.insert(info.name).second || info.name == info.family) << info.name;
    EXPECT_TRUE(IsBuiltIn(info.name)) << info.name;
    EXPECT_NO_THROW(CheckExpression(info.name)) << info.name;
  }
  EXPECT_EQ(BuiltInModels().size(), Families().size() + NamedModels().size());
}

// Counts from papers and model cards, or Hugging Face's own counts where they are exact.
TEST(BuiltIn, ParametersAreThoseOfThePublishedModels) {
  const std::map<std::string, int64_t> exact = {
      {"gpt2", 124439808},
      {"gpt2-medium", 354823168},
      {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},
      {"llama-7b", 6738415616},
      {"llama2-13b", 13015864320},
      {"llama2-70b", 68976648192},
      {"llama3-8b", 8030261248},
      {"llama3-70b", 70553706496},
      {"llama3-405b", 405853388800},
      {"mistral-7b", 7241732096},
      {"qwen2-7b", 7615616512},
      {"mixtral-8x7b", 46702792704},
      {"bloom-176b", 176247271424},
      {"gpt-neox-20b", 20554567680},
      {"t5-small", 60506624},
      {"t5-base", 222903552},
      {"t5-large", 737668096},
      {"vit-base", 86567656},
      {"vit-large", 304326632},
      {"resnet18", 11689512},
      {"resnet50", 25557032},
      {"resnet101", 44549160},
      {"resnet152", 60192808},
      {"wide-resnet-50", 68883240},
      {"wide-resnet-101", 126886696},
      {"vgg16", 138357544},
      {"vgg19", 143667240},
      {"qwen3-30b-a3b", 30532122624},
      {"qwen3-235b-a22b", 235093634560},
      {"deepseek-v3", 671026404352},
  };
  for (const auto& [name, count] : exact) EXPECT_EQ(Parameters(name), count) << name;
  const std::map<std::string, double> rounded = {
      {"gpt3-125m", 125e6},       {"gpt3-350m", 356e6},       {"gpt3-760m", 760e6},
      {"gpt3-1.3b", 1.3e9},       {"gpt3-6.7b", 6.7e9},       {"gpt3-13b", 12.9e9},
      {"gpt3-175b", 174.6e9},     {"megatron-8.3b", 8.3e9},   {"megatron-18b", 18.4e9},
      {"megatron-145b", 145.6e9}, {"megatron-530b", 529.6e9}, {"megatron-1t", 1008e9},
      {"palm-540b", 540.35e9},    {"gopher-280b", 280e9},     {"glm-130b", 130e9},
      {"gpt-oss-120b", 116.8e9},  {"t5-3b", 2.85e9},          {"t5-11b", 11.3e9},
      {"vit-huge", 632e6},        {"mpt-7b", 6.659e9},        {"mpt-30b", 29.975e9},
      {"bert-large", 335e6},      {"gpt-j-6b", 6.053e9},
  };
  for (const auto& [name, count] : rounded) {
    EXPECT_NEAR(static_cast<double>(Parameters(name)) / count, 1, 0.015) << name;
  }
}

TEST(BuiltIn, KeysDoWhatTheySay) {
  const std::string base = "gpt:layers=1,hidden=64,heads=8,vocab=100,seq=16";
  int64_t plain = Parameters(base);
  EXPECT_EQ(Parameters(base + ",tied=0") - plain, 100 * 64);
  EXPECT_EQ(Parameters("gpt:layers=1,hidden=64,heads=8,vocab=128,seq=16") - plain, 28 * 64);
  EXPECT_EQ(Parameters(base + ",positions=32") - plain, 16 * 64);
  EXPECT_EQ(plain - Parameters(base + ",position=rope"), 16 * 64);
  EXPECT_EQ(plain - Parameters(base + ",bias=0"), (3 + 1 + 4 + 1) * 64);
  EXPECT_EQ(plain - Parameters(base + ",norm_bias=0"), 3 * 64);
  EXPECT_EQ(plain - Parameters(base + ",norm=rmsnorm"), 3 * 64);
  EXPECT_EQ(plain - Parameters(base + ",kv_heads=1"), 2 * 7 * 8 * (64 + 1));
  EXPECT_EQ(Parameters(base + ",mlp=swiglu") - plain, 64 * 256 + 256);
  EXPECT_EQ(Parameters(base + ",embedding_norm=1") - plain, 2 * 64);
  EXPECT_EQ(plain - Parameters(base + ",parallel=1"), 2 * 64);
  EXPECT_EQ(Parameters(base + ",parallel=1,two_norms=1"), plain);
  EXPECT_EQ(Parameters(base + ",names=opt") - plain, 2 * 64);
}

TEST(BuiltIn, AlibiAndRotaryTablesHoldTheirFormulas) {
  Graph alibi = BuildModel("bloom-176b:layers=1,hidden=48,heads=6,vocab=40,seq=8");
  const Value& bias = alibi.value(alibi.ValuesOf(ValueKind::kConstant)[0]);
  ASSERT_EQ(bias.type.shape, (Shape{1, 6, 1, 8}));
  auto slopes = bias.data->as<float>();
  // 4 heads 2^-2, 2^-4, 2^-6, 2^-8, then the odd slopes of 8 heads: 2^-1, 2^-3.
  const std::vector<double> powers = {-2, -4, -6, -8, -1, -3};
  for (size_t head = 0; head < 6; ++head) {
    EXPECT_FLOAT_EQ(slopes[head * 8 + 3], static_cast<float>(3 * std::exp2(powers[head])));
  }
  Graph rotary = BuildModel("llama:layers=1,hidden=16,heads=2,ffn=8,vocab=40,seq=8");
  const Value& cos = rotary.value(rotary.ValuesOf(ValueKind::kConstant)[0]);
  ASSERT_EQ(cos.type.shape, (Shape{1, 1, 8, 8}));
  EXPECT_FLOAT_EQ(cos.data->as<float>()[3 * 8 + 1], std::cos(3 * std::pow(10000.0f, -0.25f)));
  EXPECT_FLOAT_EQ(cos.data->as<float>()[3 * 8 + 5], std::cos(3 * std::pow(10000.0f, -0.25f)));
}

// The constants of the published configurations.
TEST(BuiltIn, NamesHaveTheirConstants) {
  struct Constants {
    double rope_theta, norm_eps;
  };
  const std::map<std::string, Constants> known = {
      {"llama-7b", {10000, 1e-6}},      {"llama-65b", {10000, 1e-5}},
      {"llama2-7b", {10000, 1e-5}},     {"llama2-13b", {10000, 1e-5}},
      {"llama2-34b", {10000, 1e-5}},    {"llama2-70b", {10000, 1e-5}},
      {"llama3-8b", {500000, 1e-5}},    {"llama3-70b", {500000, 1e-5}},
      {"llama3-405b", {500000, 1e-5}},  {"mistral-7b", {10000, 1e-5}},
      {"qwen2-7b", {1e6, 1e-6}},        {"mixtral-8x7b", {1e6, 1e-5}},
      {"qwen3-30b-a3b", {1e6, 1e-6}},   {"qwen3-235b-a22b", {1e6, 1e-6}},
      {"gpt-oss-120b", {150000, 1e-5}}, {"deepseek-v3", {10000, 1e-6}},
      {"gpt-j-6b", {10000, 1e-5}},      {"gpt-neox-20b", {10000, 1e-5}},
  };
  for (const auto& [name, constants] : known) {
    Settings settings = CheckExpression(name);
    EXPECT_EQ(settings.Real("rope_theta"), constants.rope_theta) << name;
    double otherwise = settings.Choice("norm") == "rmsnorm" ? 1e-6 : 1e-5;
    EXPECT_EQ(settings.Real("norm_eps", otherwise), constants.norm_eps) << name;
  }
}

TEST(BuiltIn, NamesTakeKeysAndDims) {
  EXPECT_EQ(BuildModel("gpt2:layers=2").values[0].type.shape, (Shape{8, 1024}));
  ImportOptions options;
  options.dims = {{"batch", 3}, {"seq", 32}};
  EXPECT_EQ(LoadModel("gpt2:layers=1", options).values[0].type.shape, (Shape{3, 32}));
  options.dims = {{"bacth", 3}};
  EXPECT_THROW(LoadModel("gpt2", options), InputError);
}

TEST(BuiltIn, ImpossibleSizesAreRefused) {
  EXPECT_EQ(BuiltInError("gpt:heads=7"), "gpt:heads=7: hidden=768 is not a multiple of heads=7");
  EXPECT_EQ(BuiltInError("llama:kv_heads=5"),
            "llama:kv_heads=5: heads=32 is not a multiple of kv_heads=5");
  EXPECT_THAT(BuiltInError("llama:kv_heads=64"),
              HasSubstr("heads=32 is not a multiple of kv_heads=64"));
  EXPECT_THAT(BuiltInError("gpt:layers=0"), HasSubstr("layers=0 is not a whole number from 1"));
  EXPECT_THAT(BuiltInError("gpt:layers=1000000"), HasSubstr("layers=1000000"));
  EXPECT_THAT(BuiltInError("gpt:layer=2"), HasSubstr("did you mean 'layers'?"));
  EXPECT_THAT(BuiltInError("gpt:batch=1073741824,seq=1048576,hidden=1048576,heads=16,vocab=10"),
              HasSubstr("63 bits"));
  EXPECT_THAT(BuiltInError("llama:seq=1073741824"), HasSubstr("smaller seq"));
  EXPECT_THAT(BuiltInError("t5:seq=1048576"), HasSubstr("smaller seq"));
  EXPECT_THAT(BuiltInError("gpt:seq=64,positions=32"),
              HasSubstr("seq=64 is more than positions=32"));
  EXPECT_THAT(BuiltInError("gpt:position=rope,rotary_dim=7"), HasSubstr("rotary_dim=7"));
  EXPECT_THAT(BuiltInError("gpt:position=rope,rotary_dim=66"), HasSubstr("more than head_dim=64"));
  EXPECT_THAT(BuiltInError("gpt:qkv=interleaved,kv_heads=1"), HasSubstr("interleaved"));
  EXPECT_THAT(BuiltInError("moe:top_k=17"), HasSubstr("top_k=17 is more than experts=16"));
  EXPECT_THAT(BuiltInError("moe:group=100"), HasSubstr("seq=512 is not a multiple of group=100"));
  EXPECT_THAT(BuiltInError("vit:patch=15"), HasSubstr("image=224 is not a multiple of patch=15"));
  EXPECT_THAT(BuiltInError("vgg:image=225"), HasSubstr("image=225"));
  EXPECT_THAT(BuiltInError("inception:image=20"), HasSubstr("window"));
  EXPECT_THAT(BuiltInError("bert:seq=513"), HasSubstr("positions=512"));
  EXPECT_THAT(BuiltInError("t5:buckets=6"), HasSubstr("buckets=6"));
}

TEST(BuiltIn, UnknownNamesGetTheNearestOnes) {
  EXPECT_THAT(BuiltInError("gtp2"), HasSubstr("did you mean 'gpt2'"));
  EXPECT_THAT(BuiltInError("llama3-7b"),
              HasSubstr("did you mean 'llama-7b' or 'llama2-7b' or 'llama3-8b'?"));
  EXPECT_THAT(BuiltInError("zzzzzzzzzzzz"),
              StartsWith("zzzzzzzzzzzz: no built-in model 'zzzzzzzzzzzz' ("));
  EXPECT_FALSE(IsBuiltIn("gtp2"));
  EXPECT_FALSE(IsBuiltIn(""));
  EXPECT_TRUE(IsBuiltIn("gpt2:anything"));
}

}  // namespace
}  // namespace heddle
