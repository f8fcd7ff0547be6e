// Tests which of heddle's ops the ONNX ops for computing, moving and indexing become. import_ops_nn_test.cc tests
// products, normalisations and reductions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/ops.h"
#include "frontend/onnx/testing.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(OnnxOps, EveryMappedOpIsOneOfOurs) {
  // MakeRule checks what every import emits; this test checks that the list is complete and not empty.
  EXPECT_GT(AllOnnxOps().size(), 120u);
}

TEST(OnnxOps, Unary) {
  for (const std::string op : {"Neg",         "Abs",
                               "Exp",         "Log",
                               "Sqrt",        "Reciprocal",
                               "Sin",         "Cos",
                               "Tan",         "Asin",
                               "Acos",        "Atan",
                               "Sinh",        "Cosh",
                               "Asinh",       "Acosh",
                               "Atanh",       "Tanh",
                               "Sigmoid",     "Erf",
                               "Relu",        "Softplus",
                               "Softsign",    "Mish",
                               "HardSwish",   "Floor",
                               "Ceil",        "Round",
                               "Sign",        "Selu",
                               "Elu",         "Celu",
                               "LeakyRelu",   "ThresholdedRelu",
                               "HardSigmoid", "Gelu"}) {
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
  for (const auto& [op, ours] :
       std::vector<std::pair<std::string, std::string>>{{"Max", "Maximum Maximum"},
                                                        {"Min", "Minimum Minimum"},
                                                        {"Sum", "Add Add"},
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
  EXPECT_EQ(IntsOf(forward, "Slice", "starts"), (std::vector<int64_t>{6}));
  EXPECT_EQ(IntsOf(forward, "Slice", "ends"), (std::vector<int64_t>{10}));
  EXPECT_EQ(IntsOf(forward, "Slice", "axes"), (std::vector<int64_t>{0}));
  const Graph backward = slice(INT64_MAX, INT64_MIN, -3);
  EXPECT_EQ(IntsOf(backward, "Slice", "starts"), (std::vector<int64_t>{9}));
  EXPECT_EQ(IntsOf(backward, "Slice", "ends"), (std::vector<int64_t>{-1}));
  EXPECT_EQ(ResultShape(backward, "Slice"), (Shape{4}));
}

TEST(OnnxOps, SplitForms) {
  TestModel m;
  m.Input("x", {7, 2});
  m.Node("Split", {"x"}, {"a", "b", "c"}).Int("num_outputs", 3);
  m.Node("Concat", {"c", "a"}, {"y"}).Int("axis", 0);
  m.Loss("y");
  EXPECT_EQ(IntsOf(m.Import(), "Split", "sizes"), (std::vector<int64_t>{3, 3, 1}));
  TestModel old(11);
  old.Input("x", {7, 2});
  old.Node("Split", {"x"}, {"a", "b"}).Ints("split", {2, 5});
  old.Loss("b");
  EXPECT_EQ(IntsOf(old.Import(), "Split", "sizes"), (std::vector<int64_t>{2, 5}));
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
  EXPECT_EQ(IntsOf(graph, "Split", "sizes"), (std::vector<int64_t>{2, 2, 2}));
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
  EXPECT_EQ(IntsOf(graph, "Pad", "pads"), (std::vector<int64_t>{0, 1, 0, 2}));
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
  // The off and on values are a float initializer, but not a weight.
  EXPECT_EQ(hot.Ops(), "OneHot ReduceSum");
}

}  // namespace
}  // namespace heddle
