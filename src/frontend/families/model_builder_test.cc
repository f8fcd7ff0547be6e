#include "frontend/families/model_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace heddle {
namespace {

using testing::ElementsAre;

std::vector<std::string> NamesOfKind(const Graph& graph, ValueKind kind) {
  std::vector<std::string> names;
  for (ValueId id : graph.ValuesOf(kind)) names.push_back(graph.value(id).name);
  return names;
}

TEST(ModelBuilder, NamesFollowTheScopes) {
  ModelBuilder b("m");
  ValueId x = b.Input("x", DType::kF32, {4, 6});
  ValueId labels = b.Input("labels", DType::kI64, {4});
  for (const char* layer : {"a.0", "a.1"}) {
    auto scope = b.In(layer);
    x = b.Op("Relu", {b.Linear(x, 6, "up")});
  }
  Graph graph = b.Finish(b.CrossEntropy(b.Linear(x, 3, "head", {.bias = false}), labels));
  EXPECT_THAT(
      NamesOfKind(graph, ValueKind::kParameter),
      ElementsAre("a.0.up.weight", "a.0.up.bias", "a.1.up.weight", "a.1.up.bias", "head.weight"));
  EXPECT_THAT(
      NamesOfKind(graph, ValueKind::kActivation),
      ElementsAre("a.0.up", "a.0.relu", "a.1.up", "a.1.relu", "head", "labelcount", "loss"));
  EXPECT_EQ(graph.value(graph.ValuesOf(ValueKind::kParameter)[4]).type.shape, (Shape{3, 6}));
}

TEST(ModelBuilder, AParameterAskedForTwiceIsTied) {
  ModelBuilder b("m");
  EXPECT_EQ(b.Parameter("w", {2, 3}), b.Parameter("w", {2, 3}));
  auto scope = b.In("s");
  EXPECT_NE(b.Parameter("w", {2, 3}), b.Parameter("v", {2, 3}));
}

TEST(ModelBuilder, HeadsSplitAndMerge) {
  ModelBuilder b("m");
  ValueId x = b.Input("x", DType::kF32, {2, 5, 12});
  ValueId heads = b.SplitHeads(x, 4);
  EXPECT_EQ(b.shape(heads), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(b.shape(b.MergeHeads(heads)), (Shape{2, 5, 12}));
}

TEST(ModelBuilder, WhatDoesNotFitIsAnInputError) {
  ModelBuilder b("m");
  ValueId x = b.Input("x", DType::kF32, {2, 5});
  EXPECT_THROW(b.Add(x, b.Input("y", DType::kF32, {2, 4})), InputError);
  EXPECT_THROW(b.Parameter("w", {int64_t{1} << 40, int64_t{1} << 40}), InputError);
  EXPECT_THROW(b.Range("r", {int64_t{1} << 40}), InputError);
  EXPECT_THROW(b.RequireConstant(kMaxConstantBytes, 2, "c"), InputError);
}

}  // namespace
}  // namespace heddle
