#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// x -> (MatMul w) -> y -> (Add y y) -> z
struct Sample {
  Graph graph;
  ValueId x, w, y, z;
  NodeId matmul, add;

  Sample() {
    x = graph.AddValue("x", {DType::kF32, {8, 192}}, ValueKind::kInput);
    w = graph.AddValue("w", {DType::kF32, {192, 10}}, ValueKind::kParameter);
    matmul = graph.AddNode("MatMul", {}, {x, w});
    y = graph.AddResult(matmul, "y", {DType::kF32, {8, 10}});
    add = graph.AddNode("Add", {}, {y, y});
    z = graph.AddResult(add, "z", {DType::kF32, {8, 10}});
    graph.outputs = {z};
  }
};

TEST(GraphTest, BuildersLinkValuesAndNodes) {
  Sample s;
  EXPECT_EQ(s.graph.value(s.y).producer, s.matmul);
  EXPECT_FALSE(s.graph.value(s.x).producer.valid());
  EXPECT_THAT(s.graph.node(s.add).operands, ElementsAre(s.y, s.y));
  EXPECT_THAT(s.graph.node(s.add).results, ElementsAre(s.z));
  EXPECT_THAT(s.graph.ValuesOf(ValueKind::kActivation), ElementsAre(s.y, s.z));
  EXPECT_THAT(s.graph.ValuesOf(ValueKind::kConstant), IsEmpty());
  EXPECT_THAT(Verify(s.graph), IsEmpty());
}

TEST(GraphTest, ReadersNameANodeOnce) {
  Sample s;
  auto readers = Readers(s.graph);
  EXPECT_THAT(readers[s.x.index()], ElementsAre(s.matmul));
  EXPECT_THAT(readers[s.y.index()], ElementsAre(s.add));
  EXPECT_THAT(readers[s.z.index()], IsEmpty());
}

TEST(GraphTest, AttributesByType) {
  Attributes attributes = {{"axis", int64_t{1}},
                           {"eps", 1e-5},
                           {"mode", std::string("tanh")},
                           {"perm", std::vector<int64_t>{1, 0}}};
  EXPECT_EQ(IntAttr(attributes, "axis"), 1);
  EXPECT_EQ(IntAttr(attributes, "other", 7), 7);
  EXPECT_EQ(FloatAttr(attributes, "eps"), 1e-5);
  EXPECT_EQ(FloatAttr(attributes, "axis"), 1.0);
  EXPECT_EQ(FloatAttr(attributes, "other", 0.5), 0.5);
  EXPECT_EQ(StringAttr(attributes, "mode"), "tanh");
  EXPECT_EQ(StringAttr(attributes, "other", "none"), "none");
  EXPECT_THAT(IntsAttr(attributes, "perm"), ElementsAre(1, 0));
  EXPECT_THAT(IntsAttr(attributes, "other", std::vector<int64_t>{3}), ElementsAre(3));
}

TEST(GraphTest, AttributesThatAreMissingOrOfAnotherType) {
  Attributes attributes = {{"axis", std::string("x")}, {"eps", 0.5}};
  EXPECT_EQ(ErrorOf([&] { IntAttr(attributes, "k"); }), "attribute 'k' is missing");
  EXPECT_EQ(ErrorOf([&] { IntAttr(attributes, "axis", 0); }),
            "attribute 'axis' is a string, expected an integer");
  EXPECT_EQ(ErrorOf([&] { IntAttr(attributes, "eps"); }),
            "attribute 'eps' is a float, expected an integer");
  EXPECT_EQ(ErrorOf([&] { FloatAttr(attributes, "axis"); }),
            "attribute 'axis' is a string, expected a float");
  EXPECT_EQ(ErrorOf([&] { StringAttr(attributes, "eps"); }),
            "attribute 'eps' is a float, expected a string");
  EXPECT_EQ(ErrorOf([&] { IntsAttr(attributes, "eps"); }),
            "attribute 'eps' is a float, expected a list of integers");
}

TEST(GraphTest, StableHashSeesEverythingButParameterData) {
  Sample a, b;
  EXPECT_EQ(StableHash(a.graph), StableHash(b.graph));
  EXPECT_EQ(StableHash(a.graph), 12789162391883563540u);  // the same on every machine

  HostTensor weights(DType::kF32, {192, 10});
  b.graph.value(b.w).data = std::make_shared<const HostTensor>(weights);
  EXPECT_EQ(StableHash(a.graph), StableHash(b.graph));

  b.graph.node(b.add).op = "Mul";
  EXPECT_NE(StableHash(a.graph), StableHash(b.graph));
}

TEST(GraphTest, StableHashSeesTheDataOfLargeConstants) {
  auto with_constant = [](double last) {
    Sample s;
    std::vector<double> numbers(1000, 1.0);
    numbers[0] = 2.0;
    numbers.back() = last;
    s.graph.AddValue("c", {DType::kF32, {1000}}, ValueKind::kConstant,
                     std::make_shared<const HostTensor>(MakeTensor(DType::kF32, {1000}, numbers)));
    return StableHash(s.graph);
  };
  EXPECT_EQ(with_constant(3), with_constant(3));
  EXPECT_NE(with_constant(3), with_constant(4));
}

}  // namespace
}  // namespace heddle
