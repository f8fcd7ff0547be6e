#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const TensorType kScalar = {DType::kF32, {}};
const TensorType kVector = {DType::kF32, {8}};

// x, w -> (MatMul) -> y -> (Sum) -> loss
struct VerifyTest : testing::Test {
  Graph graph;
  ValueId x = graph.AddValue("x", kVector, ValueKind::kInput);
  ValueId w = graph.AddValue("w", kVector, ValueKind::kParameter);
  NodeId matmul = graph.AddNode("MatMul", {}, {x, w});
  ValueId y = graph.AddResult(matmul, "y", kVector);
  NodeId sum = graph.AddNode("Sum", {}, {y});
  ValueId loss = graph.AddResult(sum, "loss", kScalar);

  void SetUp() override { graph.outputs = {loss}; }
};

TEST_F(VerifyTest, SoundModel) {
  EXPECT_THAT(Verify(graph), IsEmpty());
  EXPECT_THAT(VerifyModel(graph), IsEmpty());
}

TEST_F(VerifyTest, EmptyGraph) {
  EXPECT_THAT(Verify(Graph{}), ElementsAre("the graph has no output"));
  EXPECT_THAT(VerifyModel(Graph{}), ElementsAre("the graph has no output"));
}

TEST_F(VerifyTest, Names) {
  graph.value(x).name = "w";
  graph.value(y).name = "";
  graph.node(sum).op = "";
  EXPECT_THAT(Verify(graph), ElementsAre("value 1 (%w) has the name of value 0",
                                         "value 2 has no name", "node 1 has no op"));
}

TEST_F(VerifyTest, Shapes) {
  graph.value(x).type.shape = {8, -1};
  graph.value(w).type.shape = Shape(33, 1);
  graph.value(y).type.shape = {int64_t{1} << 62};
  EXPECT_THAT(
      Verify(graph),
      ElementsAre("value 0 (%x): shape [8,-1] has the negative dimension -1",
                  "value 1 (%w) has 33 dimensions, above 32",
                  "value 2 (%y): f32[4611686018427387904] has more bytes than 63 bits can count"));
}

TEST_F(VerifyTest, OperandsOutOfRange) {
  graph.node(matmul).operands = {ValueId{}, ValueId{9}};
  EXPECT_THAT(Verify(graph), ElementsAre("node 0 (MatMul) has value -1 of 4 as operand 0",
                                         "node 0 (MatMul) has value 9 of 4 as operand 1"));
}

TEST_F(VerifyTest, NodesOutOfOrder) {
  graph.node(matmul).operands = {x, loss};
  EXPECT_THAT(Verify(graph),
              ElementsAre("node 0 (MatMul) reads value 3 (%loss) before node 1 (Sum) produces it"));
  graph.node(matmul).operands = {x, y};
  EXPECT_THAT(Verify(graph),
              ElementsAre("node 0 (MatMul) reads value 2 (%y) before node 0 (MatMul) produces it"));
}

TEST_F(VerifyTest, Producers) {
  graph.value(x).producer = matmul;
  graph.value(loss).producer = NodeId{};
  EXPECT_THAT(Verify(graph),
              ElementsAre("value 0 (%x) is not an activation, but node 0 is its producer",
                          "value 3 (%loss) is an activation, but its producer is node -1 of 2",
                          "node 1 (Sum) has result value 3 (%loss), which it does not produce"));
}

TEST_F(VerifyTest, Results) {
  graph.node(matmul).results = {y, y, w, ValueId{7}};
  EXPECT_THAT(
      Verify(graph),
      ElementsAre("value 2 (%y) occurs 2 times in the results of its producer, node 0 (MatMul)",
                  "node 0 (MatMul) has result value 1 (%w), which it does not produce",
                  "node 0 (MatMul) has value 7 of 4 as result 3"));
  graph.node(matmul).results = {};
  EXPECT_THAT(
      Verify(graph),
      ElementsAre("value 2 (%y) occurs 0 times in the results of its producer, node 0 (MatMul)",
                  "node 0 (MatMul) has no results"));
}

TEST_F(VerifyTest, Data) {
  auto vector = std::make_shared<HostTensor>(DType::kF32, Shape{8});
  auto other = std::make_shared<HostTensor>(DType::kF16, Shape{8});
  graph.value(x).data = vector;
  graph.value(w).data = other;
  EXPECT_THAT(Verify(graph),
              ElementsAre("value 0 (%x) has data, but is neither a constant nor a parameter",
                          "value 1 (%w) is f32[8], but its data is f16[8]"));
  graph.value(x).data = nullptr;
  vector->data.resize(12);
  graph.value(w).data = vector;
  EXPECT_THAT(Verify(graph), ElementsAre("value 1 (%w) has 12 bytes of data, expected 32"));
}

TEST_F(VerifyTest, Outputs) {
  graph.outputs = {loss, ValueId{4}};
  EXPECT_THAT(Verify(graph), ElementsAre("value 4 of 4 is an output"));
  graph.outputs = {ValueId{}};
  EXPECT_THAT(VerifyModel(graph), ElementsAre("value -1 of 4 is an output"));
}

TEST_F(VerifyTest, ModelsHaveOneScalarFloatLoss) {
  graph.outputs = {loss, y};
  EXPECT_THAT(Verify(graph), IsEmpty());
  EXPECT_THAT(VerifyModel(graph), ElementsAre("a model has one output, its loss; this one has 2"));
  graph.outputs = {y};
  EXPECT_THAT(VerifyModel(graph),
              ElementsAre("the loss %y is f32[8], not a scalar of a float type"));
  graph.outputs = {loss};
  graph.value(loss).type.dtype = DType::kI64;
  EXPECT_THAT(VerifyModel(graph),
              ElementsAre("the loss %loss is i64[], not a scalar of a float type"));
}

}  // namespace
}  // namespace heddle
