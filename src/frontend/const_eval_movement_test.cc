// Tests the ops of const_eval_movement.cc, const_eval_index.cc and const_eval_reduce.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/const_eval.h"
#include "frontend/const_eval_testing.h"

namespace heddle {
namespace {

using namespace const_eval_testing;
using ::testing::HasSubstr;

// --- Movement ------------------------------------------------------------------------------------

TEST(ConstEvalTest, Reshape) {
  const ConstTensor x = IVec({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(IntValues(Eval("Reshape", {}, {x}, {DType::kI64, {2, 3}})), (Ints{1, 2, 3, 4, 5, 6}));
  // [8(repeated),1,3] -> [2,4,3,1]: the group 8 = 2*4 stays repeated.
  const ConstTensor lazy = {{8, 1, 3}, I({1, 1, 3}, {7, 8, 9}).storage};
  const ConstTensor split = Eval("Reshape", {}, {lazy}, {DType::kI64, {2, 4, 3, 1}});
  EXPECT_EQ(split.storage->shape, (Shape{1, 1, 3, 1}));
  // [2(repeated),3] -> [6] mixes the two dimensions.
  const ConstTensor mixed = {{2, 3}, I({1, 3}, {7, 8, 9}).storage};
  EXPECT_EQ(IntValues(Eval("Reshape", {}, {mixed}, {DType::kI64, {6}})), (Ints{7, 8, 9, 7, 8, 9}));
  EXPECT_EQ(IntValues(Eval("Reshape", {}, {I({1, 1}, {4})}, {DType::kI64, {}})), (Ints{4}));
  EXPECT_EQ(IntValues(Eval("Reshape", {}, {I({}, {4})}, {DType::kI64, {1, 1}})), (Ints{4}));
  EXPECT_THAT(InputErrorOf("Reshape", {}, {x}, {{DType::kI64, {4}}}),
              HasSubstr("number of elements"));
}

TEST(ConstEvalTest, ExpandIsFree) {
  const ConstTensor x = I({3, 1}, {1, 2, 3});
  const ConstTensor y = Eval("Expand", {}, {x}, {DType::kI64, {3, 2}});
  EXPECT_EQ(y.storage, x.storage);
  EXPECT_EQ(IntValues(y), (Ints{1, 1, 2, 2, 3, 3}));
  const ConstTensor large = Eval("Expand", {}, {x}, {DType::kI64, {1536, 96, 3, 2048}});
  EXPECT_EQ(large.storage->shape, (Shape{1, 1, 3, 1}));
  EXPECT_THAT(InputErrorOf("Expand", {}, {x}, {{DType::kI64, {4, 2}}}), HasSubstr("does not fit"));
}

TEST(ConstEvalTest, Transpose) {
  const Attributes perm = {{"perm", Ints{2, 0, 1}}};
  const ConstTensor x = I({1, 2, 3}, {1, 2, 3, 4, 5, 6}, DType::kI16);
  EXPECT_EQ(IntValues(Eval("Transpose", perm, {x}, {DType::kI16, {3, 1, 2}})),
            (Ints{1, 4, 2, 5, 3, 6}));
  const ConstTensor lazy = {{9, 2, 3}, x.storage};
  EXPECT_EQ(Eval("Transpose", perm, {lazy}, {DType::kI16, {3, 9, 2}}).storage->shape,
            (Shape{3, 1, 2}));
  EXPECT_THAT(InputErrorOf("Transpose", {{"perm", Ints{0, 0, 1}}}, {x}, {x.type()}),
              HasSubstr("[0,0,1] is not a permutation"));
}

TEST(ConstEvalTest, ConcatAndSplit) {
  const ConstTensor a = I({2, 1}, {1, 2});
  const ConstTensor b = I({2, 2}, {3, 4, 5, 6});
  EXPECT_EQ(IntValues(Eval("Concat", {{"axis", int64_t{1}}}, {a, b}, {DType::kI64, {2, 3}})),
            (Ints{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(
      IntValues(Eval("Concat", {{"axis", int64_t{0}}}, {IVec({}), IVec({7})}, {DType::kI64, {1}})),
      (Ints{7}));
  // Rows repeat in both operands, and so in the result.
  const ConstTensor rows = {{5, 2}, I({1, 2}, {1, 2}).storage};
  const ConstTensor splat = {{5, 1}, I({1, 1}, {9}).storage};
  const ConstTensor joined =
      Eval("Concat", {{"axis", int64_t{1}}}, {rows, splat}, {DType::kI64, {5, 3}});
  EXPECT_EQ(joined.storage->shape, (Shape{1, 3}));
  EXPECT_EQ(IntValues(joined), (Ints{1, 2, 9, 1, 2, 9, 1, 2, 9, 1, 2, 9, 1, 2, 9}));

  const std::vector<TensorType> types = {
      {DType::kI64, {5, 1}}, {DType::kI64, {5, 0}}, {DType::kI64, {5, 2}}};
  const auto parts = EvaluateConstant("Split", {{"axis", int64_t{1}}, {"sizes", Ints{1, 0, 2}}},
                                      std::vector{joined}, types);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(IntValues((*parts)[0]), (Ints{1, 1, 1, 1, 1}));
  EXPECT_EQ(IntValues((*parts)[1]), Ints{});
  EXPECT_EQ(IntValues((*parts)[2]), (Ints{2, 9, 2, 9, 2, 9, 2, 9, 2, 9}));
  EXPECT_THAT(
      InputErrorOf("Split", {{"axis", int64_t{1}}, {"sizes", Ints{1, kMax, 2}}}, {joined}, types),
      HasSubstr("exceed"));
}

TEST(ConstEvalTest, Slice) {
  const ConstTensor x = I({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto slice = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return Attributes{{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}};
  };
  EXPECT_EQ(IntValues(Eval("Slice", slice({1}, {4}, {1}, {2}), {x}, {DType::kI64, {2, 2}})),
            (Ints{1, 3, 6, 8}));
  EXPECT_EQ(IntValues(Eval("Slice", slice({1, 4}, {-1, -1}, {0, 1}, {-1, -2}), {x},
                           {DType::kI64, {2, 3}})),
            (Ints{9, 7, 5, 4, 2, 0}));
  EXPECT_EQ(IntValues(Eval("Slice", slice({3}, {5}, {1}, {kMax}), {x}, {DType::kI64, {2, 1}})),
            (Ints{3, 8}));
  EXPECT_EQ(IntValues(Eval("Slice", slice({3}, {-1}, {1}, {kMin}), {x}, {DType::kI64, {2, 1}})),
            (Ints{3, 8}));
  EXPECT_EQ(IntValues(Eval("Slice", slice({5}, {5}, {1}, {1}), {x}, {DType::kI64, {2, 0}})),
            Ints{});
  const ConstTensor lazy = {{1000, 5}, I({1, 5}, {0, 1, 2, 3, 4}).storage};
  EXPECT_EQ(
      Eval("Slice", slice({10}, {900}, {0}, {1}), {lazy}, {DType::kI64, {890, 5}}).storage->shape,
      (Shape{1, 5}));
  EXPECT_THAT(InputErrorOf("Slice", slice({7}, {kMin}, {1}, {-1}), {x}, {{DType::kI64, {2, 2}}}),
              HasSubstr("Slice: index 7 is out of range for a dimension of 5"));
  EXPECT_THAT(InputErrorOf("Slice", slice({-9}, {3}, {1}, {1}), {x}, {{DType::kI64, {2, 2}}}),
              HasSubstr("index -9"));
  EXPECT_THAT(InputErrorOf("Slice", slice({0}, {3}, {1}, {0}), {x}, {{DType::kI64, {2, 2}}}),
              HasSubstr("step of 0"));
}

TEST(ConstEvalTest, Pad) {
  const ConstTensor x = F({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Values(Eval("Pad", {{"pads", Ints{0, 1, 1, 0}}, {"mode", "constant"}, {"value", 9.0}},
                        {x}, {DType::kF32, {3, 3}})),
            (Doubles{9, 1, 2, 9, 3, 4, 9, 9, 9}));
  EXPECT_EQ(Values(Eval("Pad", {{"pads", Ints{-1, 0, 0, 1}}}, {x}, {DType::kF32, {1, 3}})),
            (Doubles{3, 4, 0}));
  EXPECT_FALSE(
      TryEval("Pad", {{"pads", Ints{0, 1, 0, 0}}, {"mode", "edge"}}, {x}, {DType::kF32, {2, 3}}));
  EXPECT_THAT(InputErrorOf("Pad", {{"pads", Ints{kMax, 0, kMax, 0}}}, {x}, {{DType::kF32, {1, 2}}}),
              HasSubstr("overflows"));
  EXPECT_THAT(InputErrorOf("Pad", {{"pads", Ints{1, 0}}}, {x}, {{DType::kF32, {3, 2}}}),
              HasSubstr("attribute pads has 2 entries where 4 are needed"));
}

TEST(ConstEvalTest, TileAndTrilu) {
  const ConstTensor x = I({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(IntValues(Eval("Tile", {{"repeats", Ints{2, 2}}}, {x}, {DType::kI64, {4, 4}})),
            (Ints{1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(Eval("Tile", {{"repeats", Ints{1 << 20, 1}}}, {I({1, 2}, {1, 2})},
                 {DType::kI64, {1 << 20, 2}})
                .storage->shape,
            (Shape{1, 2}));
  const ConstTensor ones = {{2, 3, 4}, I({1, 1, 1}, {1}).storage};
  const auto trilu = [&](int64_t upper, int64_t k) {
    const ConstTensor y =
        Eval("Trilu", {{"upper", upper}, {"k", k}}, {ones}, {DType::kI64, {2, 3, 4}});
    EXPECT_EQ(y.storage->shape[0], 1);
    const Ints values = IntValues(y);
    return Ints(values.begin(), values.begin() + 12);
  };
  EXPECT_EQ(trilu(1, 0), (Ints{1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(trilu(1, 2), (Ints{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(trilu(0, 0), (Ints{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0}));
  EXPECT_EQ(trilu(0, -1), (Ints{0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(trilu(0, kMax), Ints(12, 1));
  EXPECT_EQ(trilu(0, kMin), Ints(12, 0));
  EXPECT_EQ(trilu(1, kMin), Ints(12, 1));
}

// --- Indexing ------------------------------------------------------------------------------------

TEST(ConstEvalTest, Gather) {
  const ConstTensor x = I({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes axis1 = {{"axis", int64_t{1}}};
  EXPECT_EQ(
      IntValues(Eval("Gather", axis1, {x, I({2, 2}, {0, -1, 1, 1})}, {DType::kI64, {2, 2, 2}})),
      (Ints{1, 3, 2, 2, 4, 6, 5, 5}));
  EXPECT_EQ(IntValues(Eval("Gather", {{"axis", int64_t{0}}}, {x, I({}, {1}, DType::kI32)},
                           {DType::kI64, {3}})),
            (Ints{4, 5, 6}));
  const ConstTensor lazy = {{2, 100}, I({2, 1}, {7, 8}).storage};
  const ConstTensor y = Eval("Gather", axis1, {lazy, IVec({99, 0, 5})}, {DType::kI64, {2, 3}});
  EXPECT_EQ(y.storage->shape, (Shape{2, 1}));
  EXPECT_EQ(InputErrorOf("Gather", axis1, {x, IVec({0, 3})}, {{DType::kI64, {2, 2}}}),
            "Gather: index 3 is out of range for a dimension of 3");
  EXPECT_EQ(InputErrorOf("Gather", axis1, {lazy, IVec({kMin})}, {{DType::kI64, {2, 1}}}),
            "Gather: index -9223372036854775808 is out of range for a dimension of 100");
  EXPECT_THAT(
      InputErrorOf("Gather", {{"axis", int64_t{2}}}, {x, IVec({0})}, {{DType::kI64, {2, 1}}}),
      HasSubstr("axis 2 is out of range for rank 2"));
}

TEST(ConstEvalTest, GatherElements) {
  const ConstTensor x = I({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(IntValues(Eval("GatherElements", {{"axis", int64_t{0}}},
                           {x, I({2, 3}, {1, 2, 0, 2, 0, -3})}, {DType::kI64, {2, 3}})),
            (Ints{4, 8, 3, 7, 2, 3}));
  EXPECT_EQ(IntValues(Eval("GatherElements", {{"axis", int64_t{1}}}, {x, I({3, 1}, {1, -1, 0})},
                           {DType::kI64, {3, 1}})),
            (Ints{2, 6, 7}));
  EXPECT_THAT(InputErrorOf("GatherElements", {{"axis", int64_t{1}}}, {x, I({1, 1}, {3})},
                           {{DType::kI64, {1, 1}}}),
              HasSubstr("GatherElements: index 3"));
  EXPECT_THAT(InputErrorOf("GatherElements", {{"axis", int64_t{1}}}, {x, I({4, 1}, {0, 0, 0, 0})},
                           {{DType::kI64, {4, 1}}}),
              HasSubstr("do not fit"));
}

TEST(ConstEvalTest, GatherND) {
  const ConstTensor x = I({2, 2}, {0, 1, 2, 3});
  EXPECT_EQ(IntValues(Eval("GatherND", {}, {x, I({2, 2}, {0, 0, 1, -1})}, {DType::kI64, {2}})),
            (Ints{0, 3}));
  EXPECT_EQ(IntValues(Eval("GatherND", {}, {x, I({2, 1}, {1, 0})}, {DType::kI64, {2, 2}})),
            (Ints{2, 3, 0, 1}));
  const ConstTensor cube = I({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(IntValues(Eval("GatherND", {{"batch_dims", int64_t{1}}}, {cube, I({2, 1}, {1, 0})},
                           {DType::kI64, {2, 2}})),
            (Ints{2, 3, 4, 5}));
  EXPECT_THAT(InputErrorOf("GatherND", {}, {x, I({1, 2}, {0, 2})}, {{DType::kI64, {1}}}),
              HasSubstr("GatherND: index 2 is out of range for a dimension of 2"));
  EXPECT_THAT(InputErrorOf("GatherND", {}, {x, I({1, 3}, {0, 0, 0})}, {{DType::kI64, {1}}}),
              HasSubstr("do not fit"));
  EXPECT_THAT(InputErrorOf("GatherND", {{"batch_dims", int64_t{9}}}, {x, I({1, 1}, {0})},
                           {{DType::kI64, {1}}}),
              HasSubstr("batch_dims 9"));
}

TEST(ConstEvalTest, GatherNDThatRepeatsAlongTheBatchShrinks) {
  // A padding mask of ones [4,6] is read at (batch, column) for every batch, which gives ones again.
  const ConstTensor mask = {{4, 6}, B({1, 1}, {1}).storage};
  const ConstTensor batch = {{4, 6, 1}, I({4, 1, 1}, {0, 1, 2, 3}).storage};
  const ConstTensor column = {{4, 6, 1}, I({1, 6, 1}, {0, 1, 2, 3, 4, 5}).storage};
  const ConstTensor tuples =
      Eval("Concat", {{"axis", int64_t{2}}}, {batch, column}, {DType::kI64, {4, 6, 2}});
  const ConstTensor y = Eval("GatherND", {}, {mask, tuples}, {DType::kBool, {4, 6}});
  EXPECT_EQ(y.storage->shape, (Shape{1, 1}));
  EXPECT_EQ(SplatValue(y), 1);
}

TEST(ConstEvalTest, Scatter) {
  const ConstTensor x = F({4}, {1, 2, 3, 4}, DType::kF16);
  const ConstTensor at = I({3, 1}, {1, -1, 1});
  const ConstTensor updates = Vec({10, 20, 30}, DType::kF16);
  EXPECT_EQ(Values(Eval("ScatterND", {{"reduction", "none"}}, {x, at, updates}, x.type())),
            (Doubles{1, 30, 3, 20}));
  EXPECT_EQ(Values(Eval("ScatterND", {{"reduction", "add"}}, {x, at, updates}, x.type())),
            (Doubles{1, 42, 3, 24}));
  const ConstTensor zeros = {{2, 2}, I({1, 1}, {0}).storage};
  EXPECT_EQ(
      IntValues(Eval("ScatterND", {}, {zeros, I({1, 1}, {1}), I({1, 2}, {5, 6})}, zeros.type())),
      (Ints{0, 0, 5, 6}));
  EXPECT_EQ(IntValues(Eval("ScatterElements", {{"axis", int64_t{1}}},
                           {zeros, I({2, 1}, {1, 0}), I({2, 1}, {5, 6})}, zeros.type())),
            (Ints{0, 5, 6, 0}));
  EXPECT_FALSE(TryEval("ScatterND", {{"reduction", "mul"}}, {x, at, updates}, x.type()));
  EXPECT_THAT(
      InputErrorOf("ScatterND", {}, {x, I({1, 1}, {4}), F({1}, {1}, DType::kF16)}, {x.type()}),
      HasSubstr("ScatterND: index 4 is out of range for a dimension of 4"));
  EXPECT_THAT(InputErrorOf("ScatterND", {}, {x, at, F({2}, {1, 1}, DType::kF16)}, {x.type()}),
              HasSubstr("updates are [2] where [3] is needed"));
}

TEST(ConstEvalTest, OneHot) {
  const ConstTensor x = IVec({2, -1, 5});
  const Attributes last = {{"depth", int64_t{3}}, {"axis", int64_t{1}}, {"on", 4.0}, {"off", 1.0}};
  EXPECT_EQ(Values(Eval("OneHot", last, {x}, {DType::kF32, {3, 3}})),
            (Doubles{1, 1, 4, 1, 1, 4, 1, 1, 1}));
  const Attributes first = {{"depth", int64_t{3}}, {"axis", int64_t{0}}};
  EXPECT_EQ(Values(Eval("OneHot", first, {x}, {DType::kBool, {3, 3}})),
            (Doubles{0, 0, 0, 0, 0, 0, 1, 1, 0}));
}

// --- Along dimensions ----------------------------------------------------------------------------

TEST(ConstEvalTest, Reductions) {
  const ConstTensor x = I({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto reduce = [&](std::string_view op, Ints axes, int64_t keep, Shape shape) {
    return IntValues(Eval(op, {{"axes", axes}, {"keepdims", keep}}, {x}, {DType::kI64, shape}));
  };
  EXPECT_EQ(reduce("ReduceSum", {1}, 1, {2, 1}), (Ints{6, 15}));
  EXPECT_EQ(reduce("ReduceSum", {0}, 0, {3}), (Ints{5, 7, 9}));
  EXPECT_EQ(reduce("ReduceSum", {0, 1}, 0, {}), (Ints{21}));
  EXPECT_EQ(reduce("ReduceSum", {}, 0, {2, 3}), (Ints{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reduce("ReduceMean", {1}, 0, {2}), (Ints{2, 5}));
  EXPECT_EQ(reduce("ReduceMax", {0}, 0, {3}), (Ints{4, 5, 6}));
  EXPECT_EQ(reduce("ReduceMin", {0}, 1, {1, 3}), (Ints{1, 2, 3}));
  EXPECT_EQ(reduce("ReduceProd", {1}, 0, {2}), (Ints{6, 120}));

  const Attributes all = {{"axes", Ints{0}}, {"keepdims", int64_t{0}}};
  const ConstTensor f = Vec({0.5, -1, 4}, DType::kBF16);
  EXPECT_EQ(Values(Eval("ReduceSum", all, {f}, {DType::kBF16, {}})), (Doubles{3.5}));
  EXPECT_EQ(Values(Eval("ReduceProd", all, {f}, {DType::kBF16, {}})), (Doubles{-2}));
  EXPECT_EQ(Values(Eval("ReduceMean", all, {Vec({1, 2})}, {DType::kF32, {}})), (Doubles{1.5}));
  EXPECT_TRUE(
      std::isnan(Values(Eval("ReduceMax", all, {Vec({1, kNaN, 2})}, {DType::kF32, {}}))[0]));
  EXPECT_EQ(Values(Eval("ReduceMin", all, {Vec({1, -kInf}, DType::kF64)}, {DType::kF64, {}})),
            (Doubles{-kInf}));
  EXPECT_EQ(Values(Eval("ReduceSum", all, {Vec({})}, {DType::kF32, {}})), (Doubles{0}));
  EXPECT_EQ(Values(Eval("ReduceProd", all, {Vec({})}, {DType::kF32, {}})), (Doubles{1}));
  EXPECT_FALSE(TryEval("ReduceMax", all, {Vec({})}, {DType::kF32, {}}));

  // Repeated elements are not visited.
  const ConstTensor many = {{int64_t{1} << 40}, I({1}, {3}).storage};
  EXPECT_EQ(IntValues(Eval("ReduceSum", all, {many}, {DType::kI64, {}})), (Ints{int64_t{3} << 40}));
  EXPECT_EQ(IntValues(Eval("ReduceMean", all, {many}, {DType::kI64, {}})), (Ints{3}));
  EXPECT_EQ(IntValues(Eval("ReduceMax", all, {many}, {DType::kI64, {}})), (Ints{3}));
  EXPECT_THAT(InputErrorOf("ReduceSum", {{"axes", Ints{1}}}, {f}, {{DType::kBF16, {}}}),
              HasSubstr("axis 1"));
}

TEST(ConstEvalTest, ArgMaxAndTopK) {
  const ConstTensor x = F({2, 3}, {1, 3, 3, 5, 4, 5});
  const Attributes last = {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}};
  EXPECT_EQ(IntValues(Eval("ArgMax", last, {x}, {DType::kI64, {2}})), (Ints{1, 0}));
  EXPECT_EQ(IntValues(Eval("ArgMin", last, {x}, {DType::kI64, {2}})), (Ints{0, 1}));
  EXPECT_EQ(IntValues(Eval("ArgMax", {{"axis", int64_t{0}}}, {x}, {DType::kI64, {1, 3}})),
            (Ints{1, 1, 1}));
  const std::vector<TensorType> types = {{DType::kF32, {2, 2}}, {DType::kI64, {2, 2}}};
  const auto top =
      EvaluateConstant("TopK", {{"k", int64_t{2}}, {"axis", int64_t{1}}}, std::vector{x}, types);
  ASSERT_TRUE(top.has_value());
  EXPECT_EQ(Values((*top)[0]), (Doubles{3, 3, 5, 5}));
  EXPECT_EQ(IntValues((*top)[1]), (Ints{1, 2, 0, 2}));
}

TEST(ConstEvalTest, CumSum) {
  const ConstTensor x = I({2, 3}, {1, 2, 3, 4, 5, 6}, DType::kI32);
  const auto sums = [&](int64_t axis, int64_t exclusive, int64_t reverse) {
    return IntValues(Eval(
        "CumSum", {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}, {x}, x.type()));
  };
  EXPECT_EQ(sums(1, 0, 0), (Ints{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(sums(0, 0, 0), (Ints{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(sums(1, 1, 0), (Ints{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(sums(1, 0, 1), (Ints{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(sums(1, 1, 1), (Ints{5, 3, 0, 11, 6, 0}));
  const ConstTensor zeros = Dense(HostTensor(DType::kI64, {4, 2048}));
  EXPECT_EQ(Eval("CumSum", {{"axis", int64_t{1}}}, {zeros}, zeros.type()).storage->shape,
            (Shape{1, 1}));
  const ConstTensor ones = {{4, 2048}, I({1, 1}, {1}).storage};
  const ConstTensor positions = Eval("CumSum", {{"axis", int64_t{1}}}, {ones}, ones.type());
  EXPECT_EQ(positions.storage->shape, (Shape{1, 2048}));
  EXPECT_EQ(positions.storage->as<int64_t>()[2047], 2048);
}

}  // namespace
}  // namespace heddle
