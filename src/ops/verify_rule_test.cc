#include "ops/verify_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ops/op.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::IsEmpty;

const std::vector<TensorType> kTypes = {{DType::kF32, {2, 3}}, {DType::kF32, {3, 4}}};

// What is found in the rule of MatMul [i,k] x [k,j] -> [i,j] (factors 0, 1 and 2) after a change.
std::vector<std::string> After(const std::function<void(Rule&)>& change) {
  Rule rule = MakeRule("MatMul", {}, kTypes);
  EXPECT_THAT(Verify(rule, kTypes), IsEmpty());
  change(rule);
  return Verify(rule, kTypes);
}

TEST(VerifyRuleTest, Factors) {
  EXPECT_THAT(After([](Rule& r) { r.factors[0].name = ""; }), Contains("factor 0 has no name"));
  EXPECT_THAT(After([](Rule& r) { r.factors[0].name = "k"; }), Contains("two factors are named k"));
  EXPECT_THAT(After([](Rule& r) { r.factors[0].size = 1; }), Contains("factor i has size 1"));
  EXPECT_THAT(After([](Rule& r) {
                r.factors.push_back({"z", 5, FactorKind::kWhole});
              }),
              Contains("factor z stands in no tensor"));
}

TEST(VerifyRuleTest, Tensors) {
  EXPECT_THAT(After([](Rule& r) { r.factors[0].size = 7; }),
              Contains("operand 0 is [7,3] by the rule, [2,3] by its type"));
  EXPECT_THAT(After([](Rule& r) { r.operands.pop_back(); }),
              Contains("1 operands stated, 2 given"));
  EXPECT_THAT(After([](Rule& r) { r.result_dtypes.clear(); }), Contains("1 results with 0 dtypes"));
  EXPECT_THAT(After([](Rule& r) { r.results[0][0] = Dim{{{9}}}; }),
              Contains("result 0, dimension 0 names 9 of 3"));
  EXPECT_THAT(After([](Rule& r) {
                r.results[0][0] = Dim{{{0, 0}}};
              }),
              Contains("result 0, dimension 0 names 0 twice"));
  EXPECT_THAT(After([](Rule& r) { r.results[0][0] = r.results[0][1]; }),
              Contains("result 0 has factor j in two dimensions"));
  EXPECT_THAT(After([](Rule& r) {
                r.results[0][0] = Dim{{{0}, {}}};
              }),
              Contains("result 0, dimension 0 has factor i in some terms only"));
  EXPECT_THAT(After([](Rule& r) { r.results[0][0].terms.clear(); }),
              Contains("result 0, dimension 0 has no terms"));
}

TEST(VerifyRuleTest, Kinds) {
  EXPECT_THAT(After([](Rule& r) { r.factors[1].kind = FactorKind::kParallel; }),
              Contains("factor k is parallel, yet no result has it"));
  EXPECT_THAT(After([](Rule& r) { r.factors[0].kind = FactorKind::kSummed; }),
              Contains("factor i is summed or maxed, yet every result has it"));
  EXPECT_THAT(After([](Rule& r) { r.factors[1].kind = FactorKind::kMaxed; }),
              Contains("factor k is maxed, yet there is a gradient"));
}

TEST(VerifyRuleTest, WorkAndKeep) {
  EXPECT_THAT(After([](Rule& r) { r.work[0].factors = {5}; }), Contains("work names 5 of 3"));
  EXPECT_THAT(After([](Rule& r) { r.work[0].flops = -1; }), Contains("work of -1 flops"));
  EXPECT_THAT(After([](Rule& r) { r.keep.operands = {2}; }),
              Contains("keep.operands names 2 of 2"));
  EXPECT_THAT(After([](Rule& r) {
                r.keep.results = {0, 0};
              }),
              Contains("keep.results names 0 twice"));
  EXPECT_THAT(After([](Rule& r) { r.keep.extra = {{0, {0}}}; }), Contains("0 bytes kept"));
}

TEST(VerifyRuleTest, LinearAndDifferentiable) {
  EXPECT_THAT(After([](Rule& r) { r.linear = {{}}; }), Contains("linear in no operand"));
  EXPECT_THAT(After([](Rule& r) { r.linear = {{-1}}; }), Contains("linear names -1 of 2"));
  EXPECT_THAT(After([](Rule& r) { r.result_dtypes = {DType::kI64}; }),
              Contains("the result is i64, yet there is a gradient"));
  EXPECT_THAT(After([](Rule& r) { r.view = true; }), Contains("a view of 2 operands"));
  std::vector<TensorType> types = kTypes;
  types[1].dtype = DType::kI64;
  EXPECT_THAT(Verify(MakeRule("MatMul", {}, kTypes), types),
              Contains("operand 1 is i64, yet differentiable"));
}

}  // namespace
}  // namespace heddle
