// Tests of ONNX products, convolutions, poolings, normalisations, losses and reductions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/testing.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(OnnxOps, MatMulOfVectors) {
  TestModel m;
  m.Input("x", {2, 3, 4});
  m.Weight("v", {4});
  m.Node("MatMul", {"x", "v"}, {"y"});
  m.State("y", {2, 3});
  m.Loss("y");
  EXPECT_EQ(m.Ops(), "Reshape MatMul Reshape ReduceSum");
  TestModel row;
  row.Input("x", {3});
  row.Weight("w", {3, 4});
  row.Node("MatMul", {"x", "w"}, {"y"});
  row.State("y", {4});
  row.Loss("y");
  EXPECT_EQ(row.Ops(), "Reshape MatMul Reshape ReduceSum");
}

TEST(OnnxOps, GemmForms) {
  const auto gemm = [](const Shape& bias, int64_t trans_a, float alpha) {
    TestModel m;
    m.Input("x", trans_a ? Shape{4, 2} : Shape{2, 4});
    m.Weight("w", {3, 4});
    m.Weight("b", bias);
    m.Node("Gemm", {"x", "w", "b"}, {"y"})
        .Int("transB", 1)
        .Int("transA", trans_a)
        .Float("alpha", alpha);
    m.State("y", {2, 3});
    m.Loss("y");
    return m.Ops();
  };
  EXPECT_EQ(gemm({3}, 0, 1), "Linear ReduceSum");
  EXPECT_EQ(gemm({1, 3}, 0, 1), "Reshape Linear ReduceSum");
  EXPECT_EQ(gemm({2, 3}, 0, 1), "Transpose MatMul Add ReduceSum");
  EXPECT_EQ(gemm({3}, 1, 1), "Transpose Transpose MatMul Add ReduceSum");
  EXPECT_EQ(gemm({3}, 0, 2), "Transpose MatMul Mul Add ReduceSum");
}

TEST(OnnxOps, EinsumIsNormalised) {
  const auto equation = [](const std::string& text) {
    TestModel m;
    m.Input("a", {2, 3, 4});
    m.Input("b", {2, 4, 5});
    m.Node("Einsum", {"a", "b"}, {"y"}).String("equation", text);
    m.Loss("y");
    return StringAttr(Find(m.Import(), "Einsum").attributes, "equation");
  };
  EXPECT_EQ(equation("bij, bjk -> bik"), "bij,bjk->bik");
  EXPECT_EQ(equation("bij,bjk"), "bij,bjk->ik");
  EXPECT_EQ(equation("BiJ,BJk->Bik"), "aib,abk->aik");
}

TEST(OnnxOps, Convolutions) {
  TestModel m;
  m.Input("x", {1, 3, 9, 9});
  m.Weight("w", {8, 3, 4, 4});
  m.Weight("zero.lifted_tensor_", {8}, 0);
  m.Node("Conv", {"x", "w", "zero.lifted_tensor_"}, {"y"})
      .Ints("strides", {2, 2})
      .String("auto_pad", "SAME_UPPER");
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(Find(graph, "Conv").operands.size(), 2u);  // a bias of zeros is removed
  EXPECT_EQ(IntsOf(graph, "Conv", "pads"), (std::vector<int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(ResultShape(graph, "Conv"), (Shape{1, 8, 5, 5}));
  TestModel up;
  up.Input("x", {1, 3, 4, 4});
  up.Weight("w", {3, 8, 2, 2});
  up.Node("ConvTranspose", {"x", "w"}, {"y"}).Ints("strides", {2, 2});
  up.Loss("y");
  EXPECT_EQ(ResultShape(up.Import(), "ConvTranspose"), (Shape{1, 8, 8, 8}));
}

TEST(OnnxOps, Pools) {
  TestModel m;
  m.Input("x", {1, 3, 8, 8});
  m.Node("MaxPool", {"x"}, {"a", "where"}).Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2});
  m.Node("AveragePool", {"a"}, {"b"}).Ints("kernel_shape", {2, 2});
  m.Node("GlobalAveragePool", {"b"}, {"y"});
  m.Loss("y");
  EXPECT_EQ(m.Ops(), "MaxPool AveragePool ReduceMean ReduceSum");
  m.Node("Cast", {"where"}, {"z"}).Int("to", kOnnxFloat);
  EXPECT_THAT(m.Error(), HasSubstr("output 1 ('where') is used; indices are not supported"));
}

TEST(OnnxOps, Resize) {
  const auto resize = [](const std::string& mode, const std::string& places) {
    TestModel m;
    m.Input("x", {1, 3, 4, 4});
    auto& scales = m.Weight("scales", {4}, 1);
    scales.set_float_data(2, 2);
    scales.set_float_data(3, 2);
    m.Node("Resize", {"x", "", "scales"}, {"y"})
        .String("mode", mode)
        .String("coordinate_transformation_mode", places)
        .String("nearest_mode", "floor");
    m.State("y", {1, 3, 8, 8});
    m.Loss("y");
    return m.Ops();
  };
  EXPECT_EQ(resize("nearest", "asymmetric"), "Resize ReduceSum");
  EXPECT_EQ(resize("linear", "half_pixel"), "Resize ReduceSum");
  EXPECT_THAT(resize("cubic", "half_pixel"), HasSubstr("mode cubic with coordinates half_pixel"));
}

TEST(OnnxOps, Normalisations) {
  TestModel m;
  m.Input("x", {2, 6, 4});
  m.Weight("scale", {4});
  m.Weight("channel", {6});
  m.Weight("group", {3});
  m.Node("LayerNormalization", {"x", "scale", "scale"}, {"a"});
  m.Node("InstanceNormalization", {"a", "channel", "channel"}, {"b"});
  m.Node("GroupNormalization", {"b", "group", "group"}, {"c"}).Int("num_groups", 3);
  m.Loss("c");
  EXPECT_EQ(
      m.Ops(),
      "LayerNorm InstanceNorm Reshape Expand Reshape Reshape Expand Reshape GroupNorm ReduceSum");
}

TEST(OnnxOps, SoftmaxBeforeOpset13Flattens) {
  EXPECT_EQ(One("Softmax", {2, 3, 4}).Ops(), "Softmax ReduceSum");
  EXPECT_EQ(One("Softmax", {2, 3, 4}, 11).Ops(), "Reshape Softmax Reshape ReduceSum");
  EXPECT_EQ(One("LogSoftmax", {2, 3}, 11).Ops(), "LogSoftmax ReduceSum");
}

TEST(OnnxOps, Losses) {
  TestModel m;
  m.Input("x", {2, 5, 3});
  m.Input("labels", {2, 3}, kOnnxInt64);
  m.Node("LogSoftmax", {"x"}, {"p"}).Int("axis", 1);
  m.Node("NegativeLogLikelihoodLoss", {"p", "labels"}, {"loss"}).Int("ignore_index", -1);
  m.Output("loss");
  EXPECT_EQ(m.Ops(), "LogSoftmax LabelCount NllLoss");
  EXPECT_EQ(IntAttr(Find(m.Import(), "NllLoss").attributes, "ignore_index"), -1);
  TestModel weighted;
  weighted.Input("x", {2, 5});
  weighted.Input("labels", {2}, kOnnxInt64);
  weighted.Weight("w", {5});
  weighted.Node("SoftmaxCrossEntropyLoss", {"x", "labels", "w"}, {"loss"});
  weighted.Output("loss");
  EXPECT_THAT(weighted.Error(), HasSubstr("class weights"));
  TestModel both;
  both.Input("x", {2, 5});
  both.Input("labels", {2}, kOnnxInt64);
  both.Node("SoftmaxCrossEntropyLoss", {"x", "labels"}, {"a", "p"}).String("reduction", "sum");
  both.Node("ReduceSum", {"p"}, {"q"}).Int("keepdims", 0);
  both.Node("Add", {"a", "q"}, {"loss"});
  both.Output("loss");
  EXPECT_EQ(both.Ops(), "CrossEntropy LogSoftmax ReduceSum Add");
}

TEST(OnnxOps, Reductions) {
  for (const auto& [op, ours] : std::vector<std::pair<std::string, std::string>>{
           {"ReduceMean", "ReduceMean"},
           {"ReduceMax", "ReduceMax"},
           {"ReduceMin", "ReduceMin"},
           {"ReduceProd", "ReduceProd"},
           {"ReduceL1", "Abs ReduceSum"},
           {"ReduceL2", "Mul ReduceSum Sqrt"},
           {"ReduceSumSquare", "Mul ReduceSum"},
           {"ReduceLogSum", "ReduceSum Log"},
           {"ReduceLogSumExp", "ReduceMax Sub Exp ReduceSum Log Add Reshape"}}) {
    TestModel m;
    m.Input("x", {2, 3, 4});
    m.Ints("axes", {-1, 0});
    m.Node(op, {"x", "axes"}, {"y"}).Int("keepdims", 0);
    m.State("y", {3});
    m.Loss("y");
    EXPECT_EQ(m.Ops(), ours + " ReduceSum");
  }
  TestModel noop;
  noop.Input("x", {2, 3});
  noop.Ints("axes", {});
  noop.Node("ReduceMean", {"x", "axes"}, {"y"}).Int("noop_with_empty_axes", 1);
  noop.Loss("y");
  EXPECT_EQ(noop.Ops(), "ReduceSum");
  TestModel arg;
  arg.Input("x", {2, 3});
  arg.Node("ArgMax", {"x"}, {"y"}).Int("axis", -1).Int("keepdims", 0);
  arg.State("y", {2}, kOnnxInt64);
  arg.Loss("y", true);
  EXPECT_EQ(arg.Ops(), "ArgMax Cast ReduceSum");
}

}  // namespace
}  // namespace heddle
