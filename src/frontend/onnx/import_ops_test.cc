// Every family of ONNX ops on small graphs: which of our ops they become, with which attributes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/node_import.h"
#include "frontend/onnx/testing.h"
#include "ops/op.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// The first node of an op in a graph.
const Node& Find(const Graph& graph, std::string_view op) {
  for (const Node& node : graph.nodes) {
    if (node.op == op) return node;
  }
  throw std::runtime_error(fmt::format("no {} in the graph", op));
}

Shape ResultShape(const Graph& graph, std::string_view op) {
  return graph.value(Find(graph, op).results[0]).type.shape;
}

std::vector<int64_t> Ints(const Graph& graph, std::string_view op, std::string_view name) {
  return IntsAttr(Find(graph, op).attributes, name);
}

// A model of one node on x of the given shape.
TestModel One(const std::string& op, const Shape& x, int64_t opset = 18) {
  TestModel m(opset);
  m.Input("x", x);
  m.Node(op, {"x"}, {"y"});
  m.Loss("y");
  return m;
}

TEST(OnnxOps, EveryMappedOpIsOneOfOurs) {
  // What the import emits is checked by MakeRule at every import; here: the list is not empty or torn.
  EXPECT_GT(AllOnnxOps().size(), 120u);
}

TEST(OnnxOps, Unary) {
  for (const std::string op :
       {"Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
        "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Tanh", "Sigmoid", "Erf", "Relu", "Softplus",
        "Softsign", "Mish", "HardSwish", "Floor", "Ceil", "Round", "Sign", "Selu", "Elu", "Celu",
        "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu"}) {
    EXPECT_EQ(One(op, {4, 6}).Ops(), op + " ReduceSum");
  }
  for (const std::string op : {"IsNaN", "IsInf"}) {
    TestModel m;
    m.Input("x", {4});
    m.Node(op, {"x"}, {"y"});
    m.Loss("y", true);
    EXPECT_EQ(m.Ops(), op + " Cast ReduceSum");
  }
}

TEST(OnnxOps, Binary) {
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Pow", "PRelu"}) {
    TestModel m;
    m.Input("a", {4, 6});
    m.Input("b", {6});
    m.Node(op, {"a", "b"}, {"y"});
    m.Loss("y");
    EXPECT_EQ(m.Ops(), op + " ReduceSum");
  }
  for (const std::string op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    TestModel m;
    m.Input("a", {4, 6});
    m.Input("b", {6});
    m.Node(op, {"a", "b"}, {"y"});
    m.Loss("y", true);
    EXPECT_EQ(m.Ops(), op + " Cast ReduceSum");
  }
  for (const std::string op : {"And", "Or", "Xor"}) {
    TestModel m;
    m.Input("a", {4}, kOnnxBool);
    m.Input("b", {4}, kOnnxBool);
    m.Node(op, {"a", "b"}, {"y"});
    m.Loss("y", true);
    EXPECT_EQ(m.Ops(), op + " Cast ReduceSum");
  }
}

TEST(OnnxOps, VariadicOpsAreChains) {
  for (const auto& [op, ours] : std::vector<std::pair<std::string, std::string>>{
           {"Max", "Maximum Maximum"}, {"Min", "Minimum Minimum"}, {"Sum", "Add Add"},
           {"Mean", "Add Add Div"}}) {
    TestModel m;
    for (const std::string name : {"a", "b", "c"}) m.Input(name, {4});
    m.Node(op, {"a", "b", "c"}, {"y"});
    m.Loss("y");
    EXPECT_EQ(m.Ops(), ours + " ReduceSum");
  }
}

TEST(OnnxOps, ClipAndPow) {
  TestModel m;
  m.Input("x", {4});
  m.Number("low", -1);
  m.Ints("two", {2}, true);
  m.Node("Clip", {"x", "low"}, {"a"});
  m.Node("Pow", {"a", "two"}, {"y"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Clip Pow ReduceSum");
  EXPECT_EQ(FloatAttr(Find(graph, "Clip").attributes, "min"), -1);
  EXPECT_FALSE(Find(graph, "Clip").attributes.contains("max"));
  EXPECT_EQ(graph.value(Find(graph, "Pow").operands[1]).type.dtype, DType::kF32);
}

TEST(OnnxOps, Dropout) {
  TestModel m;
  m.Input("x", {4});
  m.Number("ratio", 0.25);
  auto* yes = m.graph().add_initializer();
  yes->set_name("yes");
  yes->set_data_type(kOnnxBool);
  yes->add_int32_data(1);
  m.Node("Dropout", {"x", "ratio", "yes"}, {"y", "mask"});
  m.Loss("y");
  EXPECT_EQ(FloatAttr(Find(m.Import(), "Dropout").attributes, "ratio"), 0.25);
  yes->set_int32_data(0, 0);
  EXPECT_EQ(m.Ops(), "ReduceSum");
}

TEST(OnnxOps, Random) {
  EXPECT_EQ(One("RandomUniformLike", {4}).Ops(), "RandomUniformLike ReduceSum");
  EXPECT_EQ(One("Bernoulli", {4}).Ops(), "Bernoulli ReduceSum");
  TestModel m;
  m.Input("x", {4});
  m.Node("RandomNormal", {}, {"noise"}).Ints("shape", {4});
  m.Node("Add", {"x", "noise"}, {"y"});
  m.Loss("y");
  EXPECT_EQ(m.Ops(), "Expand RandomNormalLike Add ReduceSum");
}

TEST(OnnxOps, Reshapes) {
  TestModel m;
  m.Input("x", {2, 3, 4});
  m.Ints("shape", {0, -1});
  m.Node("Reshape", {"x", "shape"}, {"y"});
  m.Node("Exp", {"y"}, {"z"});
  m.Loss("z");
  EXPECT_EQ(ResultShape(m.Import(), "Reshape"), (Shape{2, 12}));
  TestModel bad;
  bad.Input("x", {2, 3, 4});
  bad.Ints("shape", {5, -1});
  bad.Node("Reshape", {"x", "shape"}, {"y"});
  bad.Loss("y");
  EXPECT_THAT(bad.Error(), HasSubstr("cannot reshape [2,3,4] to [5,-1]"));

  TestModel flat;
  flat.Input("x", {2, 3, 4});
  flat.Node("Flatten", {"x"}, {"y"}).Int("axis", 2);
  flat.Loss("y");
  EXPECT_EQ(ResultShape(flat.Import(), "Reshape"), (Shape{6, 4}));

  TestModel squeeze;
  squeeze.Input("x", {2, 1, 4, 1});
  squeeze.Ints("axes", {-3});
  squeeze.Node("Squeeze", {"x", "axes"}, {"y"});
  squeeze.Loss("y");
  EXPECT_EQ(ResultShape(squeeze.Import(), "Reshape"), (Shape{2, 4, 1}));

  TestModel unsqueeze(11);
  unsqueeze.Input("x", {2, 4});
  unsqueeze.Node("Unsqueeze", {"x"}, {"y"}).Ints("axes", {0, -1});
  unsqueeze.Node("Exp", {"y"}, {"z"});
  unsqueeze.Loss("z");
  EXPECT_EQ(ResultShape(unsqueeze.Import(), "Reshape"), (Shape{1, 2, 4, 1}));
}

TEST(OnnxOps, SliceIsNormalised) {
  const auto slice = [](int64_t start, int64_t end, int64_t step) {
    TestModel m;
    m.Input("x", {10});
    m.Ints("s", {start});
    m.Ints("e", {end});
    m.Ints("a", {-1});
    m.Ints("p", {step});
    m.Node("Slice", {"x", "s", "e", "a", "p"}, {"y"});
    m.Loss("y");
    return m.Import();
  };
  const Graph forward = slice(-4, INT64_MAX, 1);
  EXPECT_EQ(Ints(forward, "Slice", "starts"), (std::vector<int64_t>{6}));
  EXPECT_EQ(Ints(forward, "Slice", "ends"), (std::vector<int64_t>{10}));
  EXPECT_EQ(Ints(forward, "Slice", "axes"), (std::vector<int64_t>{0}));
  const Graph backward = slice(INT64_MAX, INT64_MIN, -3);
  EXPECT_EQ(Ints(backward, "Slice", "starts"), (std::vector<int64_t>{9}));
  EXPECT_EQ(Ints(backward, "Slice", "ends"), (std::vector<int64_t>{-1}));
  EXPECT_EQ(ResultShape(backward, "Slice"), (Shape{4}));
}

TEST(OnnxOps, SplitForms) {
  TestModel m;
  m.Input("x", {7, 2});
  m.Node("Split", {"x"}, {"a", "b", "c"}).Int("num_outputs", 3);
  m.Node("Concat", {"c", "a"}, {"y"}).Int("axis", 0);
  m.Loss("y");
  EXPECT_EQ(Ints(m.Import(), "Split", "sizes"), (std::vector<int64_t>{3, 3, 1}));
  TestModel old(11);
  old.Input("x", {7, 2});
  old.Node("Split", {"x"}, {"a", "b"}).Ints("split", {2, 5});
  old.Loss("b");
  EXPECT_EQ(Ints(old.Import(), "Split", "sizes"), (std::vector<int64_t>{2, 5}));
}

TEST(OnnxOps, Sequences) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Ints("two", {2}, true);
  m.Ints("last", {-1}, true);
  m.Node("SplitToSequence", {"x", "two"}, {"s"}).Int("axis", 1);
  m.Node("SequenceAt", {"s", "last"}, {"part"});
  m.Node("SequenceConstruct", {"part", "part"}, {"pair"});
  m.Node("ConcatFromSequence", {"pair"}, {"y"}).Int("axis", 0);
  m.Node("SequenceLength", {"s"}, {"length"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Split Concat ReduceSum");
  EXPECT_EQ(Ints(graph, "Split", "sizes"), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(ResultShape(graph, "Concat"), (Shape{8, 2}));
}

TEST(OnnxOps, PadTileTriluExpand) {
  TestModel m;
  m.Input("x", {2, 3});
  m.Ints("pads", {1, 2});
  m.Ints("axes", {-1});
  m.Number("value", 7);
  m.Ints("repeats", {2, 1});
  m.Ints("shape", {5, 1, 1});
  m.Node("Pad", {"x", "pads", "value", "axes"}, {"a"});
  m.Node("Tile", {"a", "repeats"}, {"b"});
  m.Node("Trilu", {"b"}, {"c"}).Int("upper", 0);
  m.Node("Expand", {"c", "shape"}, {"y"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Pad Tile Trilu Expand ReduceSum");
  EXPECT_EQ(Ints(graph, "Pad", "pads"), (std::vector<int64_t>{0, 1, 0, 2}));
  EXPECT_EQ(ResultShape(graph, "Tile"), (Shape{4, 6}));
  EXPECT_EQ(ResultShape(graph, "Expand"), (Shape{5, 4, 6}));
}

TEST(OnnxOps, BlocksOfSpaceAndDepth) {
  TestModel m;
  m.Input("x", {1, 8, 2, 3});
  m.Node("DepthToSpace", {"x"}, {"a"}).Int("blocksize", 2).String("mode", "CRD");
  m.Node("SpaceToDepth", {"a"}, {"y"}).Int("blocksize", 2);
  m.State("a", {1, 2, 4, 6});
  m.State("y", {1, 8, 2, 3});
  m.Loss("y");
  EXPECT_THAT(m.Ops(), HasSubstr("Transpose"));
}

TEST(OnnxOps, ConstantsAndRanges) {
  TestModel m;
  m.Input("x", {4});
  m.Node("Constant", {}, {"zero"}).Int("value_int", 0);
  m.Node("Constant", {}, {"four"}).Int("value_int", 4);
  m.Node("Constant", {}, {"one"}).Int("value_int", 1);
  m.Node("Range", {"zero", "four", "one"}, {"range"});
  m.Node("Cast", {"range"}, {"floats"}).Int("to", kOnnxFloat);
  m.Node("Mul", {"x", "floats"}, {"y"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Mul ReduceSum");
  const auto constants = graph.ValuesOf(ValueKind::kConstant);
  ASSERT_EQ(constants.size(), 1u);
  EXPECT_EQ(graph.value(constants[0]).name, "floats");
  EXPECT_EQ(AsDouble(*graph.value(constants[0]).data, 3), 3);
}

TEST(OnnxOps, Indexing) {
  TestModel m;
  m.Input("x", {5, 6});
  m.Input("i", {2, 3}, kOnnxInt64);
  m.Ints("k", {2});
  m.Ints("axis", {-1}, true);
  m.Node("Gather", {"x", "i"}, {"a"}).Int("axis", -1);
  m.Node("TopK", {"a", "k"}, {"values", "indices"});
  m.Node("CumSum", {"values", "axis"}, {"y"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Gather TopK CumSum ReduceSum");
  EXPECT_EQ(ResultShape(graph, "Gather"), (Shape{5, 2, 3}));
  TestModel hot;
  hot.Input("i", {4}, kOnnxInt64);
  hot.Ints("depth", {10}, true);
  hot.Weight("values", {2}, 1);
  hot.Node("OneHot", {"i", "depth", "values"}, {"y"});
  hot.Loss("y");
  EXPECT_EQ(hot.Ops(), "OneHot ReduceSum");  // off and on, though a float initializer, is no weight
}

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
    m.Node("Gemm", {"x", "w", "b"}, {"y"}).Int("transB", 1).Int("transA", trans_a).Float("alpha", alpha);
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
  m.Node("Conv", {"x", "w", "zero.lifted_tensor_"}, {"y"}).Ints("strides", {2, 2}).String("auto_pad", "SAME_UPPER");
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(Find(graph, "Conv").operands.size(), 2u);  // a bias of zeros is none
  EXPECT_EQ(Ints(graph, "Conv", "pads"), (std::vector<int64_t>{1, 1, 2, 2}));
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
  EXPECT_EQ(m.Ops(),
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
           {"ReduceMean", "ReduceMean"}, {"ReduceMax", "ReduceMax"}, {"ReduceMin", "ReduceMin"},
           {"ReduceProd", "ReduceProd"}, {"ReduceL1", "Abs ReduceSum"}, {"ReduceL2", "Mul ReduceSum Sqrt"},
           {"ReduceSumSquare", "Mul ReduceSum"}, {"ReduceLogSum", "ReduceSum Log"},
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
