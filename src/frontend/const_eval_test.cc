#include "frontend/const_eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "frontend/const_eval_testing.h"

namespace heddle {
namespace {

using namespace const_eval_testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- Holding constants ---------------------------------------------------------------------------

TEST(ConstTensorTest, CompressShrinksWhatRepeats) {
  const ConstTensor rows = Compress(MakeTensor(DType::kI64, {2, 3}, Ints{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(rows.shape, (Shape{2, 3}));
  EXPECT_EQ(rows.storage->shape, (Shape{1, 3}));
  const ConstTensor columns = Compress(MakeTensor(DType::kI8, {2, 3}, Ints{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(columns.storage->shape, (Shape{2, 1}));
  const ConstTensor splat = Compress(HostTensor(DType::kF16, {4, 1, 5}));
  EXPECT_EQ(splat.storage->shape, (Shape{1, 1, 1}));
  const ConstTensor empty = Compress(HostTensor(DType::kF32, {4, 0}));
  EXPECT_EQ(empty.storage->shape, (Shape{4, 0}));
  EXPECT_EQ(IntValues(rows), (Ints{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(IntValues(columns), (Ints{1, 1, 1, 2, 2, 2}));
}

TEST(ConstTensorTest, MaterializeRefusesWhatIsTooLarge) {
  const ConstTensor small = F({1, 1}, {1});
  EXPECT_THROW(Materialize({{1 << 20, 1 << 20}, small.storage}), InputError);
  EXPECT_THROW(Materialize({{2, 2}, small.storage}, 15), InputError);
  EXPECT_EQ(Values({{2, 2}, small.storage}), (Doubles{1, 1, 1, 1}));
}

TEST(ConstTensorTest, SplatValue) {
  EXPECT_EQ(SplatValue(F({3}, {2.5, 2.5, 2.5}, DType::kBF16)), 2.5);
  EXPECT_EQ(SplatValue(F({3}, {2.5, 2.5, 2})), std::nullopt);
  EXPECT_EQ(SplatValue(F({}, {7})), 7);
  EXPECT_EQ(SplatValue(F({0}, {})), std::nullopt);
  EXPECT_EQ(SplatValue(I({2}, {-3, -3})), -3);
  EXPECT_EQ(SplatValue(I({1}, {kMax})), std::nullopt) << "no double is that number";
}

TEST(ConstTensorTest, ToInts) {
  EXPECT_THAT(ToInts(I({2, 2}, {1, -2, 3, 4}, DType::kI32), "shape"), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(ToInts({{3}, I({1}, {5}).storage}, "shape"), ElementsAre(5, 5, 5));
  EXPECT_THROW(ToInts(F({1}, {1}), "shape"), InputError);
  EXPECT_THROW(ToInts({{1025}, I({1}, {5}).storage}, "shape"), InputError);
}

TEST(ConstEvalTest, UnknownOpsAreNotEvaluated) {
  EXPECT_FALSE(TryEval("Conv", {}, {F({1}, {1})}, {DType::kF32, {1}}));
}

// --- Limits --------------------------------------------------------------------------------------

TEST(ConstEvalTest, ResultsThatExceedTheCapAreNotEvaluated) {
  const int64_t n = 8192;
  const ConstTensor row = {{1, n}, std::make_shared<const HostTensor>(DType::kI64, Shape{1, n})};
  const ConstTensor column = {{n, 1}, std::make_shared<const HostTensor>(DType::kI64, Shape{n, 1})};
  EXPECT_FALSE(TryEval("Add", {}, {row, column}, {DType::kI64, {n, n}}));
  EXPECT_TRUE(TryEval("Equal", {}, {row, column}, {DType::kBool, {n, n}})) << "exactly 64 MiB";
  const ConstTensor wide = {{n, n}, row.storage};
  EXPECT_FALSE(TryEval("Reshape", {}, {wide}, {DType::kI64, {n * n}}));
  EXPECT_FALSE(TryEval("CumSum", {{"axis", int64_t{0}}}, {wide}, {DType::kI64, {n, n}}));
  EXPECT_FALSE(TryEval("ScatterND", {}, {wide, I({1, 1}, {0}), row}, {DType::kI64, {n, n}}));
}

TEST(ConstEvalTest, HostileShapes) {
  EXPECT_THAT(
      InputErrorOf("Neg", {}, {{{kMax, 4}, I({1, 1}, {1}).storage}}, {{DType::kI64, {kMax, 4}}}),
      HasSubstr("Neg"));
  EXPECT_THAT(InputErrorOf("Add", {}, {IVec({1})}, {{DType::kI64, {1}}}),
              HasSubstr("1 operands where 2 are needed"));
  EXPECT_THAT(InputErrorOf("Add", {}, {IVec({1, 2}), IVec({1})}, {{DType::kI64, {3}}}),
              HasSubstr("does not fit the result i64[3]"));
  const ConstTensor empty = {{0, 3}, I({1, 3}, {1, 2, 3}).storage};
  EXPECT_EQ(IntValues(Eval("ReduceSum", {{"axes", Ints{0}}}, {empty}, {DType::kI64, {1, 3}})),
            (Ints{0, 0, 0}));
  EXPECT_EQ(IntValues(Eval("Neg", {}, {empty}, empty.type())), Ints{});
  EXPECT_THAT(
      InputErrorOf("Gather", {{"axis", int64_t{0}}}, {empty, IVec({0})}, {{DType::kI64, {1, 3}}}),
      HasSubstr("index 0 is out of range for a dimension of 0"));
}

// --- Lazy broadcasting ---------------------------------------------------------------------------

TEST(ConstEvalTest, CausalMask) {
  const int64_t s = 16;
  Ints iota(static_cast<size_t>(s));
  std::iota(iota.begin(), iota.end(), 0);
  const ConstTensor columns = I({1, 1, 1, s}, iota);
  const ConstTensor rows = I({1, 1, s, 1}, iota);
  const ConstTensor causal = Eval("LessOrEqual", {}, {columns, rows}, {DType::kBool, {1, 1, s, s}});
  const ConstTensor real = {{4, 1, 1, s}, B({1, 1, 1, 1}, {1}).storage};
  const ConstTensor kept = Eval("And", {}, {causal, real}, {DType::kBool, {4, 1, s, s}});
  const ConstTensor expanded = Eval("Expand", {}, {kept}, {DType::kBool, {4, 1, s, s}});
  const ConstTensor mask =
      Eval("Where", {}, {expanded, F({}, {0}), F({}, {-3.4e38})}, {DType::kF32, {4, 1, s, s}});
  EXPECT_EQ(mask.storage->shape, (Shape{1, 1, s, s}));
  for (int64_t i = 0; i < s; ++i) {
    for (int64_t j = 0; j < s; ++j) {
      EXPECT_EQ(mask.storage->as<float>()[static_cast<size_t>(i * s + j)],
                j <= i ? 0.0f : -3.4e38f);
    }
  }
}

// Random operands, some with repeated dimensions.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(RandomBelow(static_cast<uint64_t>(bound), seed_, 0, counter_++));
  }
  // Integers from low to high, so that sums are exact in any order.
  ConstTensor Tensor(DType dtype, const Shape& shape, int64_t low, int64_t high) {
    Shape stored = shape;
    for (int64_t& size : stored) size = Below(2) == 0 ? size : 1;
    Ints values;
    for (int64_t n = ElementCount(stored); n > 0; --n)
      values.push_back(low + Below(high - low + 1));
    return {shape, std::make_shared<const HostTensor>(MakeTensor(dtype, stored, values))};
  }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

void ExpectLazyEqualsDense(std::string_view op, const Attributes& attributes,
                           const std::vector<ConstTensor>& operands,
                           const std::vector<TensorType>& types) {
  std::vector<ConstTensor> dense;
  for (const ConstTensor& operand : operands) dense.push_back(Dense(Materialize(operand)));
  const auto a = EvaluateConstant(op, attributes, operands, types);
  const auto b = EvaluateConstant(op, attributes, dense, types);
  ASSERT_TRUE(a && b) << op;
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ((*a)[i].type(), types[i]) << op;
    EXPECT_EQ(Materialize((*a)[i]), Materialize((*b)[i]))
        << op << " of " << ToString(operands[0].shape);
    EXPECT_LE((*a)[i].storage->size(), (*b)[i].storage->size()) << op;
  }
}

class LazyBroadcastTest : public testing::TestWithParam<DType> {};

TEST_P(LazyBroadcastTest, EqualsDense) {
  const DType dtype = GetParam();
  Random random(7 + static_cast<uint64_t>(dtype));
  const DType boolean = DType::kBool;
  for (int round = 0; round < 40; ++round) {
    const Shape shape = {1 + random.Below(3), 1 + random.Below(4), 1 + random.Below(4)};
    const ConstTensor x = random.Tensor(dtype, shape, 1, 3);
    const TensorType same = {dtype, shape};
    const ConstTensor y = random.Tensor(dtype, {shape[1], shape[2]}, 1, 3);
    for (const std::string_view op : {"Add", "Mul", "Div", "Mod", "Maximum", "Pow"}) {
      ExpectLazyEqualsDense(op, {}, {x, y}, {same});
    }
    for (const std::string_view op : {"Less", "Equal"})
      ExpectLazyEqualsDense(op, {}, {y, x}, {{boolean, shape}});
    for (const std::string_view op : {"Neg", "Relu", "Identity"})
      ExpectLazyEqualsDense(op, {}, {x}, {same});
    ExpectLazyEqualsDense("Cast", {}, {x}, {{DType::kF64, shape}});
    const ConstTensor condition = random.Tensor(boolean, {shape[0], 1, shape[2]}, 0, 1);
    ExpectLazyEqualsDense("Where", {}, {condition, x, y}, {same});
    const ConstTensor right = random.Tensor(dtype, {shape[2], 3}, 1, 3);
    ExpectLazyEqualsDense("MatMul", {}, {x, right}, {{dtype, {shape[0], shape[1], 3}}});

    ExpectLazyEqualsDense("Reshape", {}, {x}, {{dtype, {shape[0] * shape[1], 1, shape[2]}}});
    ExpectLazyEqualsDense("Reshape", {}, {x}, {{dtype, {shape[0], shape[1] * shape[2]}}});
    ExpectLazyEqualsDense("Expand", {}, {x}, {{dtype, {2, shape[0], shape[1], shape[2]}}});
    ExpectLazyEqualsDense("Transpose", {{"perm", Ints{2, 0, 1}}}, {x},
                          {{dtype, {shape[2], shape[0], shape[1]}}});
    const ConstTensor other = random.Tensor(dtype, {shape[0], 2, shape[2]}, 1, 3);
    ExpectLazyEqualsDense("Concat", {{"axis", int64_t{1}}}, {x, other},
                          {{dtype, {shape[0], shape[1] + 2, shape[2]}}});
    const int64_t cut = random.Below(shape[1] + 1);
    ExpectLazyEqualsDense(
        "Split", {{"axis", int64_t{1}}, {"sizes", Ints{cut, shape[1] - cut}}}, {x},
        {{dtype, {shape[0], cut, shape[2]}}, {dtype, {shape[0], shape[1] - cut, shape[2]}}});
    ExpectLazyEqualsDense("Slice",
                          {{"starts", Ints{shape[1] - 1, 0}},
                           {"ends", Ints{-1, shape[2]}},
                           {"axes", Ints{1, 2}},
                           {"steps", Ints{-2, 3}}},
                          {x}, {{dtype, {shape[0], (shape[1] + 1) / 2, (shape[2] + 2) / 3}}});
    ExpectLazyEqualsDense("Pad", {{"pads", Ints{0, 1, -1, 0, 0, 2}}, {"value", 2.0}}, {x},
                          {{dtype, {shape[0], shape[1] + 1, shape[2] + 1}}});
    ExpectLazyEqualsDense("Tile", {{"repeats", Ints{2, 1, 3}}}, {x},
                          {{dtype, {2 * shape[0], shape[1], 3 * shape[2]}}});
    ExpectLazyEqualsDense("Trilu", {{"upper", int64_t{1}}, {"k", random.Below(5) - 2}}, {x},
                          {same});

    const ConstTensor indices = random.Tensor(DType::kI64, {2, 3}, -shape[1], shape[1] - 1);
    ExpectLazyEqualsDense("Gather", {{"axis", int64_t{1}}}, {x, indices},
                          {{dtype, {shape[0], 2, 3, shape[2]}}});
    const ConstTensor elements =
        random.Tensor(DType::kI64, {shape[0], 2, shape[2]}, 0, shape[1] - 1);
    ExpectLazyEqualsDense("GatherElements", {{"axis", int64_t{1}}}, {x, elements},
                          {{dtype, {shape[0], 2, shape[2]}}});
    const int64_t least = std::min(shape[1], shape[2]);
    const ConstTensor tuples = random.Tensor(DType::kI64, {shape[0], 3, 2}, -least, least - 1);
    ExpectLazyEqualsDense("GatherND", {{"batch_dims", int64_t{1}}}, {x, tuples},
                          {{dtype, {shape[0], 3}}});
    const ConstTensor at = random.Tensor(DType::kI64, {3, 1}, 0, shape[0] - 1);
    const ConstTensor updates = random.Tensor(dtype, {3, shape[1], shape[2]}, 1, 3);
    ExpectLazyEqualsDense("ScatterND", {{"reduction", "add"}}, {x, at, updates}, {same});
    ExpectLazyEqualsDense("ScatterND", {{"reduction", "none"}}, {x, at, updates}, {same});
    const ConstTensor spread = random.Tensor(dtype, elements.shape, 1, 3);
    ExpectLazyEqualsDense("ScatterElements", {{"axis", int64_t{1}}, {"reduction", "add"}},
                          {x, elements, spread}, {same});
    ExpectLazyEqualsDense("OneHot", {{"depth", int64_t{3}}, {"axis", int64_t{1}}}, {indices},
                          {{dtype, {2, 3, 3}}});

    const Attributes outer = {{"axes", Ints{0, 2}}, {"keepdims", int64_t{0}}};
    for (const std::string_view op :
         {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      ExpectLazyEqualsDense(op, outer, {x}, {{dtype, {shape[1]}}});
      ExpectLazyEqualsDense(op, {{"axes", Ints{1}}}, {x}, {{dtype, {shape[0], 1, shape[2]}}});
    }
    ExpectLazyEqualsDense("ArgMax", {{"axis", int64_t{1}}}, {x},
                          {{DType::kI64, {shape[0], 1, shape[2]}}});
    ExpectLazyEqualsDense("CumSum", {{"axis", int64_t{1}}}, {x}, {same});
    ExpectLazyEqualsDense(
        "TopK", {{"axis", int64_t{2}}, {"k", int64_t{1}}}, {x},
        {{dtype, {shape[0], shape[1], 1}}, {DType::kI64, {shape[0], shape[1], 1}}});
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LazyBroadcastTest,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                                         DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                                         DType::kU8, DType::kBool),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace heddle
