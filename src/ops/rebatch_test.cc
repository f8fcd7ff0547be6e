#include "ops/rebatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/op.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

// A model with one input of the given shape.
struct Model {
  Graph graph;
  ValueId x;
  int next = 0;

  explicit Model(Shape shape) {
    x = graph.AddValue("x", {DType::kF32, std::move(shape)}, ValueKind::kInput);
  }
  ValueId operator()(std::string_view op, std::vector<ValueId> operands,
                     Attributes attributes = {}) {
    return AddOp(graph, op, std::move(attributes), std::move(operands),
                 "v" + std::to_string(next++))[0];
  }
  ValueId Parameter(Shape shape) {
    return graph.AddValue("p" + std::to_string(next++), {DType::kF32, std::move(shape)},
                          ValueKind::kParameter);
  }
  // The shape of `value` at another batch.
  Shape At(ValueId value, int64_t batch) {
    graph.outputs = {value};
    Graph other = Rebatch(graph, batch);
    return other.value(other.outputs[0]).type.shape;
  }
  std::string Why(ValueId value, int64_t batch) {
    try {
      At(value, batch);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST(Rebatch, FollowsTheBatchThroughProducts) {
  Model m({8, 6, 4});
  ValueId tokens = m("Reshape", {m.x}, {{"shape", Ints{48, 4}}});
  ValueId y = m("Linear", {tokens, m.Parameter({4, 10})});
  ValueId back = m("Reshape", {y}, {{"shape", Ints{8, 6, 2, 5}}});
  ValueId turned = m("Transpose", {back}, {{"perm", Ints{2, 1, 0, 3}}});
  EXPECT_EQ(m.At(tokens, 3), (Shape{18, 4}));
  EXPECT_EQ(m.At(turned, 3), (Shape{2, 6, 3, 5}));
  EXPECT_EQ(m.At(m("ReduceSum", {turned}, {{"axes", Ints{2}}, {"keepdims", int64_t{0}}}), 5),
            (Shape{2, 6, 5}));
}

TEST(Rebatch, TensorsWithoutElements) {
  Model m({1, 0});
  EXPECT_EQ(m.Why(m("Reshape", {m.x}, {{"shape", Ints{1, 0, 5}}}), 4),
            "the batch cannot change: Reshape 'v0' mixes samples along the batch");
}

// All small reshapes, of batches of one and of two samples: each has an answer or says why it has none.
TEST(Rebatch, AnyReshapeIsAnsweredOrRefused) {
  std::vector<Shape> shapes;
  for (int64_t a = 0; a < 4; ++a) {
    shapes.push_back({a});
    for (int64_t b = 0; b < 4; ++b) {
      shapes.push_back({a, b});
      for (int64_t c = 0; c < 4; ++c) shapes.push_back({a, b, c});
    }
  }
  int answered = 0, refused = 0;
  for (const Shape& from : shapes) {
    for (const Shape& to : shapes) {
      if (from[0] < 1 || from[0] > 2 || ElementCount(from) != ElementCount(to)) continue;
      Model m(from);
      ValueId y = m("Reshape", {m.x}, {{"shape", to}});
      std::string why = m.Why(y, 6);
      ++(why.empty() ? answered : refused);
      if (!why.empty()) continue;
      EXPECT_EQ(ElementCount(m.At(y, 6)) * from[0], 6 * ElementCount(to));
    }
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(refused, 100);
}

TEST(Rebatch, FindsConstantsExpandedToTheBatch) {
  Model m({8, 4});
  ValueId row = m.Parameter({1, 4});
  ValueId wide = m("Expand", {row}, {{"shape", Ints{8, 4}}});
  EXPECT_EQ(m.At(m("Add", {m.x, wide}), 3), (Shape{3, 4}));
}

TEST(Rebatch, NamesTheNodeThatForbidsIt) {
  using testing::HasSubstr;
  auto why = [](std::string_view op, Attributes attributes, size_t copies = 1) {
    Model m({8, 4});
    return m.Why(m(op, std::vector<ValueId>(copies, m.x), std::move(attributes)), 3);
  };
  EXPECT_THAT(why("Softmax", {{"axis", int64_t{0}}}), HasSubstr("Softmax 'v0' mixes samples"));
  EXPECT_THAT(why("Concat", {{"axis", int64_t{0}}}, 2),
              HasSubstr("Concat 'v0' cuts or joins along the batch"));
  EXPECT_THAT(why("Reshape", {{"shape", Ints{2, 16}}}), HasSubstr("Reshape 'v0'"));
  Model m({8, 4});
  EXPECT_THAT(m.Why(m.x, 0), HasSubstr("at least 1"));
  EXPECT_THAT(m.Why(m("Add", {m.x, m.Parameter({8, 4})}), 3), HasSubstr("as long as the batch"));
  Model scalar({8, 4});
  scalar.graph.AddValue("y", {DType::kF32, {5}}, ValueKind::kInput);
  EXPECT_THAT(scalar.Why(scalar.x, 3), HasSubstr("input 'x' begins with 8, 'y' with 5"));
}

TEST(Rebatch, FromOneFollowsTheInputs) {
  Model m({1, 6, 4});
  ValueId tokens = m("Reshape", {m.x}, {{"shape", Ints{6, 4}}});
  EXPECT_EQ(m.At(tokens, 5), (Shape{30, 4}));
  ValueId heads =
      m("Reshape", {m("Linear", {m.x, m.Parameter({4, 8})})}, {{"shape", Ints{1, 6, 2, 4}}});
  EXPECT_EQ(m.At(m("Transpose", {heads}, {{"perm", Ints{0, 2, 1, 3}}}), 5), (Shape{5, 2, 6, 4}));
}

TEST(Rebatch, FromOneRefusesToGuess) {
  Model m({1, 4, 3});
  ValueId sequence_first = m("Transpose", {m.x}, {{"perm", Ints{1, 0, 2}}});
  ValueId merged = m("Reshape", {sequence_first}, {{"shape", Ints{4, 3}}});
  EXPECT_THAT(m.Why(merged, 2), testing::HasSubstr("several places"));
  Model n({1, 4});
  EXPECT_THAT(n.Why(n("Add", {n.x, n.Parameter({2, 4})}), 2),
              testing::HasSubstr("as long as the batch"));
}

}  // namespace
}  // namespace heddle
