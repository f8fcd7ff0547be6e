#include "search/prices/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op.h"

namespace heddle {
namespace {

Rule MatMulRule(int64_t rows, int64_t inner, int64_t columns) {
  std::vector<TensorType> types = {{DType::kF32, {rows, inner}}, {DType::kF32, {inner, columns}}};
  return MakeRule("MatMul", {}, types);
}

StrategyScope Scope() { return {.expand = true, .made_by_nodes = {true, false}}; }

TEST(Strategies, FactorsThenPartialSumsThenNothing) {
  Mesh mesh{0, {{"x", 2}}};
  Rule rule = MatMulRule(8, 8, 8);
  std::vector<Strategy> all = StrategiesOf(mesh, "MatMul", rule, Scope());
  // Rows, columns and the summed factor; the first operand as a partial sum, the second never;
  // replication.
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(all[i][0].is_split());
  EXPECT_EQ(all[3][0], PassPartial(0));
  EXPECT_EQ(all[4][0], kReplicate);
  EXPECT_EQ(StrategiesOf(mesh, "MatMul", rule, Scope()), all);
}

TEST(Strategies, TooSmallToSplit) {
  Mesh mesh{0, {{"x", 2}, {"y", 2}}};
  Rule rule = MatMulRule(2, 64, 64);
  for (const Strategy& strategy : StrategiesOf(mesh, "MatMul", rule, Scope())) {
    bool both = strategy[0] == strategy[1] && strategy[0].is_split();
    if (both) {
      EXPECT_EQ(rule.factors[strategy[0].factor_index()].size, 64);
    }
  }
}

TEST(Strategies, AnAxisOfOneDeviceDoesNothing) {
  Mesh mesh{0, {{"x", 1}}};
  EXPECT_THAT(StrategiesOf(mesh, "MatMul", MatMulRule(8, 8, 8), Scope()),
              testing::ElementsAre(Strategy{kReplicate}));
}

}  // namespace
}  // namespace heddle
