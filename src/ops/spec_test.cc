#include "ops/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "ops/verify_rule.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<TensorType> Floats(std::vector<Shape> shapes) {
  std::vector<TensorType> types;
  for (Shape& shape : shapes) types.push_back({DType::kF32, std::move(shape)});
  return types;
}

Rule Make(std::string_view spec, const std::vector<Shape>& shapes, const SpecArgs& args = {}) {
  static const Attributes kNone;
  std::vector<TensorType> types = Floats(shapes);
  Rule rule = Spec(spec, OpContext{kNone, types}, args);
  for (size_t o = 0; o < shapes.size(); ++o) {
    EXPECT_EQ(GlobalShape(rule, rule.operands[o]), shapes[o]) << spec;
  }
  return rule;
}

std::string Text(std::string_view spec, const std::vector<Shape>& shapes,
                 const SpecArgs& args = {}) {
  return ToString(Make(spec, shapes, args));
}

std::string ErrorOf(std::string_view spec, const std::vector<Shape>& shapes,
                    const SpecArgs& args = {}) {
  try {
    Make(spec, shapes, args);
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(SpecTest, FactorsAndMarks) {
  EXPECT_EQ(Text("i k+, k j -> i j", {{2, 3}, {3, 4}}),
            "[i,k] x [k,j] -> [i,j]   i,j parallel  k summed");
  EXPECT_EQ(Text("a^ b& c! d -> d", {{2, 3, 4, 5}}),
            "[a,b,c,d] -> [d]   d parallel  a maxed  b expanded  c whole");
  EXPECT_EQ(Text("i k, k+ j -> i j", {{2, 3}, {3, 4}}),
            "[i,k] x [k,j] -> [i,j]   i,j parallel  k summed")
      << "a mark may stand at any mention";
  EXPECT_EQ(Text(" -> ", {{}}), "[] -> []   ");
}

TEST(SpecTest, FactorsOfSizeOneAreLeftOut) {
  EXPECT_EQ(Text("i k+, k j -> i j", {{2, 1}, {1, 1}}), "[i,1] x [1,1] -> [i,1]   i parallel");
  EXPECT_EQ(Text("(h d) -> h d", {{6}}, {.lengths = {}, .sizes = {{"h", 1}}}),
            "[d] -> [1,d]   d parallel");
  EXPECT_EQ(Text("i -> i", {{0}}), "[i] -> [i]   i parallel") << "empty ones are not";
}

TEST(SpecTest, RunsAlignAtTheirRightEndAndBroadcast) {
  EXPECT_EQ(Text("x*, x* -> x*", {{2, 3, 4}, {3, 4}}),
            "[x0,x1,x2] x [x1,x2] -> [x0,x1,x2]   x0,x1,x2 parallel");
  EXPECT_EQ(Text("x*, x* -> x*", {{3, 1}, {2, 1, 4}}),
            "[x1,1] x [x0,1,x2] -> [x0,x1,x2]   x1,x0,x2 parallel");
  EXPECT_EQ(Text("x*, x* -> x*", {{}, {2}}), "[] x [x0] -> [x0]   x0 parallel");
  EXPECT_EQ(Text("x*, x* -> x*", {{1, 0}, {5, 1}}), "[1,x1] x [x0,1] -> [x0,x1]   x1,x0 parallel")
      << "an empty dimension broadcasts with 1";
  EXPECT_EQ(Text("b* i k+, b* k j -> b* i j", {{2, 3, 4}, {7, 1, 4, 5}}),
            "[b1,i,k] x [b0,1,k,j] -> [b0,b1,i,j]   b1,i,b0,j parallel  k summed");
}

TEST(SpecTest, MarksOfRuns) {
  EXPECT_EQ(Text("a* c*!, c* -> a* c*", {{2, 3, 4}, {3, 4}}, {.lengths = {{"c", 2}}, .sizes = {}}),
            "[a0,c0,c1] x [c0,c1] -> [a0,c0,c1]   a0 parallel  c0,c1 whole");
}

TEST(SpecTest, SeveralRunsInOneTensorNeedLengths) {
  for (int64_t axis = 0; axis < 3; ++axis) {
    Rule rule = Make("a* v+ z*, i* -> a* i* z*", {{2, 3, 4}, {5, 6}},
                     {.lengths = {{"a", axis}}, .sizes = {}});
    Shape expected = {2, 3, 4};
    expected.erase(expected.begin() + axis);
    expected.insert(expected.begin() + axis, {5, 6});
    EXPECT_EQ(GlobalShape(rule, rule.results[0]), expected);
    EXPECT_EQ(rule.factors[static_cast<size_t>(FindFactor(rule, "v"))].kind, FactorKind::kSummed);
  }
  EXPECT_EQ(
      Text("a* z* -> a* depth z*", {{2, 3}}, {.lengths = {{"a", 1}}, .sizes = {{"depth", 9}}}),
      "[a0,z0] -> [a0,depth,z0]   a0,z0,depth parallel");
}

TEST(SpecTest, ProductsFindTheirUnknownFactor) {
  EXPECT_EQ(Text("(h g) d, h d -> (h g)", {{12, 5}, {4, 5}}),
            "[(h g),d] x [h,d] -> [(h g)]   h,g,d parallel");
  Rule rule = Make("n (g c), (g o) c+ -> n (g o)", {{2, 12}, {20, 3}},
                   {.lengths = {}, .sizes = {{"g", 4}}});
  EXPECT_EQ(ToString(rule), "[n,(g c)] x [(g o),c] -> [n,(g o)]   n,g,o parallel  c summed");
  EXPECT_EQ(rule.factors[static_cast<size_t>(FindFactor(rule, "o"))].size, 5);
  EXPECT_EQ(ResultTypes(rule), Floats({{2, 20}}));
}

TEST(SpecTest, OptionalOperandsMayBeMissing) {
  EXPECT_EQ(Text("i k+, k j, j -> i j", {{2, 3}, {3, 4}}),
            "[i,k] x [k,j] -> [i,j]   i,j parallel  k summed");
  EXPECT_EQ(Text("i k+, k j, j -> i j", {{2, 3}, {3, 4}, {4}}),
            "[i,k] x [k,j] x [j] -> [i,j]   i,j parallel  k summed");
}

TEST(SpecTest, SizesOfFactorsThatOnlyResultsHave) {
  Rule rule = Make("a* c! z* -> a* k! z*, a* k z*", {{4, 7, 3}},
                   {.lengths = {{"a", 1}}, .sizes = {{"k", 2}}});
  EXPECT_EQ(ToString(rule), "[a0,c,z0] -> [a0,k,z0], [a0,k,z0]   a0,z0 parallel  c,k whole");
  EXPECT_EQ(ResultTypes(rule), Floats({{4, 2, 3}, {4, 2, 3}}));
}

TEST(SpecTest, DefaultsOfARule) {
  Attributes none;
  std::vector<TensorType> types = {{DType::kBF16, {2, 3}}, {DType::kI64, {3}}, {DType::kF32, {}}};
  Rule rule = Spec("i k+, k,  -> i", OpContext{none, types});
  EXPECT_THAT(rule.result_dtypes, ElementsAre(DType::kBF16));
  EXPECT_THAT(rule.differentiable, ElementsAre(0, 2));
  ASSERT_EQ(rule.work.size(), 1u);
  EXPECT_EQ(rule.work[0].flops, 1);
  EXPECT_THAT(rule.work[0].factors, ElementsAre(FindFactor(rule, "i")));
  EXPECT_THAT(Verify(rule, types), IsEmpty());
}

TEST(SpecTest, Errors) {
  EXPECT_EQ(ErrorOf("i, j -> i j", {{2}, {3}, {4}}), "takes at most 2 operands, 3 given");
  EXPECT_EQ(ErrorOf("b* i k, b* k j -> i j", {{3}, {3, 4}}),
            "operand 0 has 1 dimensions [3], expected at least 2");
  EXPECT_EQ(ErrorOf("i k, k j -> i j", {{2, 3, 4}, {3, 4}}),
            "operand 0 has 3 dimensions [2,3,4], expected 2");
  EXPECT_EQ(ErrorOf("i k, k j -> i j", {{2, 3}, {}}), "operand 1 has 0 dimensions [], expected 2");
  EXPECT_EQ(ErrorOf("i k, k j -> i j", {{2, 3}, {4, 5}}),
            "operand 1 [4,5] has 4 in dimension 0, where 3 is expected");
  EXPECT_EQ(ErrorOf("i k, k j -> i j", {{2, 3}, {1, 5}}),
            "operand 1 [1,5] has 1 in dimension 0, where 3 is expected")
      << "only runs broadcast";
  EXPECT_EQ(ErrorOf("x*, x* -> x*", {{2, 3}, {2, 4}}),
            "operand 1 [2,4] has 4 in dimension 1, where 3 is expected");
  EXPECT_EQ(ErrorOf("i 1 -> i", {{2, 3}}),
            "operand 0 [2,3] has 3 in dimension 1, where 1 is expected");
  EXPECT_EQ(ErrorOf("(h g), h -> g", {{7}, {2}}),
            "operand 0 [7] has 7 in dimension 0, which is not a multiple of 2");
  EXPECT_EQ(ErrorOf("(h g), h, g -> g", {{7}, {2}, {3}}),
            "operand 0 [7] has 7 in dimension 0, which is not 6");
  EXPECT_EQ(ErrorOf("(h g), h -> g", {{7}, {0}}),
            "operand 0 [7] has 7 in dimension 0, which is not a multiple of 0");
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_EQ(ErrorOf("(h g), h, g -> g", {{7}, {kHuge}, {kHuge}}),
            "operand 0 [7] has 7 in dimension 0, which is not 9223372036854775807");
}

TEST(SpecDeathTest, MalformedSpecsAreBugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Make("i j", {{2, 3}}), "rule without '->'");
  EXPECT_DEATH(Make("i -> (i j", {{2}}), "'\\)' is missing");
  EXPECT_DEATH(Make("(i* j) -> i", {{2}}), "a run inside a product");
  EXPECT_DEATH(Make("? -> i", {{2}}), "a name is missing");
  EXPECT_DEATH(Make("a* b* -> a*", {{2}}), "two runs of unknown length");
  EXPECT_DEATH(Make("i -> k", {{2}}), "factor k has no size");
}

TEST(SpecTest, FactorsByName) {
  Rule rule = Make("b* i k+, b* k j -> b* i j", {{2, 3, 4, 5}, {2, 3, 5, 6}});
  EXPECT_EQ(FindFactor(rule, "b1"), 1);
  EXPECT_EQ(FindFactor(rule, "none"), -1);
  EXPECT_THAT(Factors(rule, {"b*", "k"}), ElementsAre(0, 1, 3));
  EXPECT_THAT(Factors(rule, {"b0"}), ElementsAre(0));
  EXPECT_THAT(Factors(rule, {"b"}), IsEmpty());
  EXPECT_THAT(AllFactors(rule), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(FactorsOf(rule.results[0]), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(AddFactor(rule, "one", 1, FactorKind::kWhole), IsEmpty());
  EXPECT_THAT(AddFactor(rule, "two", 2, FactorKind::kWhole), ElementsAre(5));
}

TEST(SpecTest, Axes) {
  EXPECT_EQ(NormaliseAxis(-1, 3), 2);
  EXPECT_EQ(NormaliseAxis(0, 3), 0);
  EXPECT_THROW(NormaliseAxis(3, 3), InputError);
  EXPECT_THROW(NormaliseAxis(-4, 3), InputError);
  EXPECT_THROW(NormaliseAxis(0, 0), InputError);
  EXPECT_THROW(NormaliseAxis(std::numeric_limits<int64_t>::min(), 3), InputError);
}

TEST(RuleTest, BlocksCoverAFactorInOrderWithNoneLargerThanTheFirst) {
  for (int64_t n = 0; n <= 20; ++n) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t at = 0;
      for (int64_t i = 0; i < parts; ++i) {
        Block block = FactorBlock(n, parts, i);
        EXPECT_EQ(block.begin, at);
        EXPECT_GE(block.size(), 0);
        EXPECT_LE(block.size(), (n + parts - 1) / parts);
        bool last = block.end == n;
        EXPECT_TRUE(last || block.size() == (n + parts - 1) / parts) << "only the last is short";
        at = block.end;
      }
      EXPECT_EQ(at, n);
    }
  }
  EXPECT_EQ(FactorBlock(5, 4, 2), (Block{4, 5}));
  EXPECT_EQ(FactorBlock(5, 4, 3), (Block{5, 5}));
  EXPECT_EQ(FactorBlock(50257, 8, 7), (Block{43981, 50257}));
}

TEST(RuleTest, BlocksOfHugeFactors) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(FactorBlock(kMax, 1, 0), (Block{0, kMax}));
  EXPECT_EQ(FactorBlock(kMax, 2, 0), (Block{0, int64_t{1} << 62}));
  EXPECT_EQ(FactorBlock(kMax, 2, 1), (Block{int64_t{1} << 62, kMax}));
  EXPECT_EQ(FactorBlock(kMax - 1, kMax, kMax - 1), (Block{kMax - 1, kMax - 1}));
  EXPECT_EQ(FactorBlock(3, kMax, kMax - 1), (Block{3, 3}));
  EXPECT_EQ(FactorBlock(0, kMax, kMax - 1), (Block{0, 0}));
}

TEST(RuleTest, LocalShapesOfConcatenationsAndProducts) {
  // (h w)|(h w)|h: a fused QKV whose last part is narrower, h split.
  Rule rule;
  rule.factors = {{"h", 5, FactorKind::kParallel}, {"w", 4, FactorKind::kWhole}};
  Dims dims = {Dim{{{0, 1}, {0, 1}, {0}}}, Dim{}, Dim{{{1}}}};
  EXPECT_EQ(GlobalShape(rule, dims), (Shape{45, 1, 4}));
  Shape sum = {0, 0, 0};
  for (int64_t rank = 0; rank < 4; ++rank) {
    std::vector<Block> blocks = {FactorBlock(5, 4, rank), {0, 4}};
    Shape local = LocalShape(rule, dims, blocks);
    EXPECT_EQ(local, (Shape{blocks[0].size() * 9, 1, 4}));
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += local[d];
  }
  EXPECT_EQ(sum, (Shape{45, 4, 16})) << "split dimensions add up, others are replicated";
  EXPECT_TRUE(Has(dims, 0));
  EXPECT_FALSE(Has({dims[2]}, 0));
}

TEST(RuleTest, WorkOfABlock) {
  Rule rule = Make("i k+, k j -> i j", {{6, 10}, {10, 4}});
  rule.work = {{2, AllFactors(rule), true, {}}, {1, FactorsOf(rule.results[0]), false, {}}};
  Work whole = ForwardWork(rule, WholeBlocks(rule));
  EXPECT_EQ(whole.contraction_flops, 2.0 * 6 * 10 * 4);
  EXPECT_EQ(whole.flops, 2.0 * 6 * 10 * 4 + 6 * 4);
  Work sum;
  for (int64_t rank = 0; rank < 4; ++rank) {  // 10 in blocks of 3, 3, 3, 1
    std::vector<Block> blocks = WholeBlocks(rule);
    blocks[static_cast<size_t>(FindFactor(rule, "k"))] = FactorBlock(10, 4, rank);
    Work part = ForwardWork(rule, blocks);
    EXPECT_EQ(part.flops - part.contraction_flops, 24) << "done on every rank";
    sum.contraction_flops += part.contraction_flops;
  }
  EXPECT_EQ(sum.contraction_flops, whole.contraction_flops);
}

}  // namespace
}  // namespace heddle
