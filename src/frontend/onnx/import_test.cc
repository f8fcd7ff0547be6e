// Tests of invalid files, and of the import of whole graphs. import_ops_test.cc tests the ops.
#include "frontend/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/ops.h"
#include "frontend/onnx/testing.h"
#include "ops/op.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(const Graph& graph, ValueKind kind) {
  std::vector<std::string> names;
  for (const ValueId id : graph.ValuesOf(kind)) names.push_back(graph.value(id).name);
  return names;
}

TEST(OnnxImport, AWholeModel) {
  TestModel m;
  m.Input("x", {8, 16});
  m.Input("labels", {8}, kOnnxInt64);
  m.Weight("w", {16, 10});
  m.Weight("b", {10});
  m.Node("Gemm", {"x", "w", "b"}, {"logits"});
  m.Node("SoftmaxCrossEntropyLoss", {"logits", "labels"}, {"loss"});
  m.Output("loss");
  const Graph graph = m.Import();
  EXPECT_EQ(graph.name, "m");
  EXPECT_EQ(m.Ops(), "Linear LabelCount CrossEntropy");
  EXPECT_THAT(Names(graph, ValueKind::kParameter), ElementsAre("w", "b"));
  EXPECT_THAT(Names(graph, ValueKind::kInput), ElementsAre("x", "labels"));
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "loss");
  EXPECT_EQ(graph.value(graph.node(NodeId{0}).results[0]).name, "logits");
  EXPECT_TRUE(VerifyModel(graph).empty());
  EXPECT_EQ(AsDouble(*graph.value(graph.ValuesOf(ValueKind::kParameter)[0]).data, 3), 0.5);
}

TEST(OnnxImport, UnsortedNodesAreSorted) {
  TestModel m;
  m.Input("x", {4});
  m.Node("Exp", {"a"}, {"b"});
  m.Node("Neg", {"x"}, {"a"});
  m.Loss("b");
  EXPECT_EQ(m.Ops(), "Neg Exp ReduceSum");
}

TEST(OnnxImport, CycleIsPrinted) {
  TestModel m;
  m.Input("x", {4});
  m.Node("Neg", {"x"}, {"a"});
  m.Node("Add", {"a", "d"}, {"b"});
  m.Node("Exp", {"b"}, {"c"});
  m.Node("Neg", {"c"}, {"d"});
  m.Loss("d");
  EXPECT_EQ(m.Error(),
            "m.onnx: the graph has a cycle: 'n2' -> 'n3' -> 'n4' -> 'n2'; export it again");
}

TEST(OnnxImport, NamesThatDoNotFit) {
  TestModel undefined;
  undefined.Input("x", {4});
  undefined.Node("Add", {"x", "ghost"}, {"y"});
  undefined.Loss("y");
  EXPECT_EQ(undefined.Error(),
            "m.onnx: node 'n1' reads 'ghost', which no node, input or initializer produces");
  TestModel twice;
  twice.Input("x", {4});
  twice.Node("Neg", {"x"}, {"y"});
  twice.Node("Exp", {"x"}, {"y"});
  twice.Loss("y");
  EXPECT_EQ(twice.Error(), "m.onnx: value 'y' is produced by node 'n1' and again by node 'n2'");
  TestModel shadowed;
  shadowed.Input("x", {4});
  shadowed.Node("Neg", {"x"}, {"x"});
  shadowed.Loss("x");
  EXPECT_THAT(shadowed.Error(), HasSubstr("'x' is an input or initializer and also produced"));
  TestModel inputs;
  inputs.Input("x", {4});
  inputs.Input("x", {4});
  EXPECT_THAT(inputs.Error(), HasSubstr("input 'x' is declared twice"));
}

TEST(OnnxImport, UnknownOpsAreListedTogether) {
  TestModel m;
  m.Input("x", {4});
  m.Node("Zig", {"ghost"}, {"a"});
  m.Node("Zag", {"x"}, {"b"});
  m.Node("Zag", {"x"}, {"c"});
  m.Node("Relu", {"x"}, {"d"}).proto().set_domain("com.microsoft");
  m.Node("If", {"x"}, {"e"});
  EXPECT_THAT(m.Error(),
              HasSubstr("uses 4 ops that heddle does not know: If (1), Zag (2), Zig (1), "
                        "com.microsoft::Relu (1)"));
}

TEST(OnnxImport, ShapesThatDoNotFit) {
  TestModel m;
  m.Input("x", {2, 3});
  m.Weight("w", {5, 7});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Loss("y");
  EXPECT_THAT(m.Error(),
              AllOf(HasSubstr("m.onnx: node 'n1' (MatMul): "), HasSubstr("3"), HasSubstr("5")));
  TestModel scalar;
  scalar.Input("x", {1, 3, 8, 8});
  scalar.Number("w", 1);
  scalar.Node("Conv", {"x", "w"}, {"y"});
  scalar.Loss("y");
  EXPECT_THAT(scalar.Error(), HasSubstr("node 'n1' (Conv)"));
}

TEST(OnnxImport, StatedShapes) {
  TestModel m;
  m.Input("x", {2, 3});
  m.Node("Identity", {"x"}, {"y"});
  m.Loss("y");
  m.State("y", {2, 3});
  EXPECT_EQ(m.Ops(), "ReduceSum");
  m.graph().clear_value_info();
  m.State("y", {2, 4});
  EXPECT_THAT(m.Error(), HasSubstr("value 'y' is f32[2,3], but the file states f32[2,4]"));
  m.graph().clear_value_info();
  m.State("y", {2, 3}, kOnnxInt64);
  EXPECT_THAT(m.Error(), HasSubstr("the file states i64[2,3]"));
}

TEST(OnnxImport, SymbolicDimensions) {
  TestModel m;
  m.Input("x", {2, 3});
  auto* shape = m.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_param("batch");
  shape->mutable_dim(1)->Clear();
  m.Loss("x");
  EXPECT_EQ(m.Error(),
            "m.onnx: inputs have symbolic dimensions: batch (of x:0), x:1 (of x:1); give "
            "--dim batch=N --dim x:1=N");
  ImportOptions options;
  options.dims = {{"batch", 8}, {"x:1", 5}};
  const Graph graph = m.Import(options);
  EXPECT_EQ(graph.value(graph.ValuesOf(ValueKind::kInput)[0]).type.shape, (Shape{8, 5}));
  options.dims["sequence"] = 4;
  EXPECT_THAT(m.Error(options), HasSubstr("--dim sequence: no input has this symbolic dimension; "
                                          "symbolic dimensions are: batch, x:0, x:1"));
  options.dims = {{"batch", 0}, {"x:1", 5}};
  EXPECT_THAT(m.Error(options), HasSubstr("--dim batch=0: the size must be positive"));
}

TEST(OnnxImport, InputsOfBadTypes) {
  TestModel huge;
  huge.Input("x", {int64_t{1} << 40, int64_t{1} << 40});
  huge.Loss("x");
  EXPECT_THAT(huge.Error(), HasSubstr("input 'x'"));
  TestModel negative;
  negative.Input("x", {-3});
  negative.Loss("x");
  EXPECT_THAT(negative.Error(), HasSubstr("value 'x' has the dimension -3"));
  TestModel bare;
  bare.graph().add_input()->set_name("x");
  bare.Loss("x");
  EXPECT_THAT(bare.Error(), HasSubstr("input 'x' has no element type"));
}

TEST(OnnxImport, TheLossIsTheScalarOutput) {
  TestModel m;
  m.Input("x", {4});
  m.Output("y");
  m.Node("Neg", {"x"}, {"y"});
  EXPECT_THAT(m.Error(),
              HasSubstr("needs one scalar float output, the loss; its outputs are 'y' f32[4]"));
  m.Loss("y");
  EXPECT_EQ(m.Ops(), "Neg ReduceSum");
  m.graph().clear_output();
  EXPECT_THAT(m.Error(), HasSubstr("has no output"));
  m.Output("ghost");
  EXPECT_THAT(m.Error(), HasSubstr("output 'ghost' is produced by no node"));
  TestModel constant;
  constant.Ints("i", {1, 2});
  constant.Loss("i", true);
  EXPECT_THAT(constant.Error(), HasSubstr("is not computed from any input"));
}

TEST(OnnxImport, DeadNodesAndInputsGo) {
  TestModel m;
  m.Input("x", {4});
  m.Input("unread", {4});
  m.Weight("w", {4});
  m.Node("Mul", {"unread", "w"}, {"dead"});
  m.Loss("x");
  const Graph graph = m.Import();
  EXPECT_THAT(Names(graph, ValueKind::kInput), ElementsAre("x"));
  EXPECT_TRUE(graph.ValuesOf(ValueKind::kParameter).empty());
}

TEST(OnnxImport, WhatIsTrained) {
  TestModel m;
  m.Input("x", {2, 3, 4, 4});
  m.Weight("conv", {1, 3, 1, 1});
  m.Weight("bias", {1});  // one element, but used as a weight
  m.Weight("gamma", {1}).set_name("bn.weight");
  m.Weight("beta", {1}).set_name("bn.bias");
  m.Weight("mean", {1}).set_name("bn.stat0");  // recognised by its use
  m.Weight("var", {1}).set_name("bn.stat1");
  m.Weight("m.lifted_tensor_0", {4});
  m.Weight("scale", {4});
  m.Weight("one", {1});
  m.Node("Conv", {"x", "conv", "bias"}, {"a"});
  m.Node("BatchNormalization", {"a", "bn.weight", "bn.bias", "bn.stat0", "bn.stat1"}, {"b"});
  m.Node("Mul", {"b", "m.lifted_tensor_0"}, {"c"});
  m.Node("Mul", {"c", "scale"}, {"d"});
  m.Node("Mul", {"d", "one"}, {"e"});
  m.Loss("e");
  EXPECT_THAT(Names(m.Import(), ValueKind::kParameter),
              ElementsAre("conv", "bias", "bn.weight", "bn.bias", "scale"));
  ImportOptions options;
  options.frozen = {"bn.*", "sc?le"};
  EXPECT_THAT(Names(m.Import(options), ValueKind::kParameter), ElementsAre("conv", "bias"));
  options.frozen = {"nothing*"};
  EXPECT_THAT(m.Error(options), HasSubstr("--frozen nothing*: no initializer has such a name"));
  options = {};
  options.batch_norm_inference = true;
  EXPECT_THAT(m.Ops(options), HasSubstr("BatchNormInference"));
}

TEST(OnnxImport, TiedWeights) {
  TestModel m;
  m.Input("x", {2, 4});
  for (const std::string name : {"a", "b", "c"}) {
    auto& w = m.Weight(name, {4, 4});
    w.clear_float_data();
    w.set_data_location(1);
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"location", "w.bin"}, {"offset", name == "c" ? "64" : "0"}, {"length", "64"}}) {
      auto* entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }
  m.Node("MatMul", {"x", "a"}, {"y"});
  m.Node("MatMul", {"y", "b"}, {"z"});
  m.Node("MatMul", {"z", "c"}, {"u"});
  m.Loss("u");
  EXPECT_THAT(Names(m.Import(), ValueKind::kParameter), ElementsAre("a", "c"));
}

TEST(OnnxImport, ConstantsAreEvaluatedAndStaySmall) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Node("Shape", {"x"}, {"shape"});
  m.Number("half", 0.5f);
  m.Node("Expand", {"half", "shape"}, {"halves"});
  m.Node("Mul", {"x", "halves"}, {"y"});
  m.Loss("y");
  const Graph graph = m.Import();
  EXPECT_EQ(m.Ops(), "Mul ReduceSum");
  ASSERT_EQ(graph.ValuesOf(ValueKind::kConstant).size(), 1u);
  EXPECT_EQ(ElementCount(graph.value(graph.ValuesOf(ValueKind::kConstant)[0]).type.shape), 1);
}

TEST(OnnxImport, AConstantThatGivesTheShapeIsExpanded) {
  TestModel m;
  m.Input("x", {6});
  m.Number("half", 0.5f);
  m.Ints("shape", {4, 6});
  m.Node("Expand", {"half", "shape"}, {"halves"});
  m.Node("Mul", {"x", "halves"}, {"y"});
  m.Loss("y");
  EXPECT_EQ(m.Ops(), "Expand Mul ReduceSum");
}

TEST(OnnxImport, NodesThatChangeNothingGo) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Ints("same", {0, -1});
  m.Ints("zero", {0});
  m.Ints("six", {6});
  m.Ints("one", {1});
  m.Number("f0", 0);
  m.Number("f1", 1);
  m.Node("Identity", {"x"}, {"a"});
  m.Node("Dropout", {"a"}, {"b"});
  m.Node("Cast", {"b"}, {"c"}).Int("to", kOnnxFloat);
  m.Node("Reshape", {"c", "same"}, {"d"});
  m.Node("Transpose", {"d"}, {"e"}).Ints("perm", {0, 1});
  m.Node("Add", {"e", "f0"}, {"f"});
  m.Node("Mul", {"f1", "f"}, {"g"});
  m.Node("Concat", {"g"}, {"h"}).Int("axis", 0);
  m.Node("Slice", {"h", "zero", "six", "one"}, {"i"});
  m.Loss("i");
  EXPECT_EQ(m.Ops(), "ReduceSum");
}

TEST(OnnxImport, OperandsThatMustBeKnown) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Input("s", {2}, kOnnxInt64);
  m.Node("Reshape", {"x", "s"}, {"y"});
  m.Loss("y");
  EXPECT_THAT(m.Error(),
              HasSubstr("node 'n1' (Reshape): operand 1 (shape 's') is computed or has no "
                        "data, must be a constant"));
}

TEST(OnnxImport, AttributesThatNobodyReads) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Node("Relu", {"x"}, {"y"}).Int("slope", 3);
  m.Loss("y");
  EXPECT_THAT(m.Error(), HasSubstr("attribute 'slope' is not supported"));
}

TEST(OnnxImport, ImportIsDeterministic) {
  TestModel m;
  m.Input("x", {4, 6});
  m.Weight("w", {6, 6});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Node("Softmax", {"y"}, {"z"});
  m.Loss("z");
  EXPECT_EQ(StableHash(m.Import()), StableHash(m.Import()));
}

}  // namespace
}  // namespace heddle
