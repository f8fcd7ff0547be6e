#include "runtime/initialise.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

constexpr std::string_view kModel =
    "heddle 1\n"
    "model \"\"\n"
    "input %ids: i64[4]\n"
    "param %table: f32[64,32]\n"
    "param %gain: f32[32]\n"
    "param %shift: f32[32]\n"
    "param %matrix: f32[32,16]\n"
    "param %bias: f32[16]\n"
    "param %scale: f32[16]\n"
    "param %term: f32[16]\n"
    "param %place: f32[4,16]\n"
    "%x: f32[4,32] = Gather(%table, %ids) {axis=0}\n"
    "%n: f32[4,32] = LayerNorm(%x, %gain, %shift) {axis=-1, epsilon=1e-05}\n"
    "%y: f32[4,16] = Linear(%n, %matrix, %bias) {transpose_weight=0}\n"
    "%scaled: f32[4,16] = Mul(%y, %scale)\n"
    "%sum: f32[4,16] = Add(%scaled, %term)\n"
    "%placed: f32[4,16] = Add(%sum, %place)\n"
    "%loss: f32[] = ReduceSum(%placed) {axes=[0, 1], keepdims=0}\n"
    "output %loss\n";

class InitialWeightsTest : public testing::Test {
 protected:
  at::Tensor Weights(const std::string& name) const {
    for (ValueId id : graph_.ValuesOf(ValueKind::kParameter)) {
      if (graph_.value(id).name == name) return InitialWeights(graph_, id, rules_, 7);
    }
    ADD_FAILURE() << name;
    return {};
  }
  double Deviation(const std::string& name) const { return Weights(name).std().item<double>(); }

  Graph graph_ = FromText(kModel, "model");
  Rules rules_ = MakeRules(graph_);
};

TEST_F(InitialWeightsTest, WhatScalesBeginsAtOneAndWhatIsAddedAtZero) {
  for (const char* name : {"gain", "scale"}) {
    EXPECT_TRUE(at::equal(Weights(name), at::ones_like(Weights(name)))) << name;
  }
  for (const char* name : {"shift", "bias", "term"}) {
    EXPECT_TRUE(at::equal(Weights(name), at::zeros_like(Weights(name)))) << name;
  }
}

TEST_F(InitialWeightsTest, MatricesHaveTheDeviationOfTheirFanIn) {
  EXPECT_NEAR(Deviation("matrix"), 1 / std::sqrt(32.0), 0.03);
  EXPECT_NEAR(Deviation("table"), 0.02, 0.002);
  EXPECT_NEAR(Deviation("place"), 0.02, 0.006);
}

}  // namespace
}  // namespace heddle
