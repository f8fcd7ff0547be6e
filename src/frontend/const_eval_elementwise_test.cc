// Tests the ops of const_eval_unary.cc and const_eval_binary.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/const_eval.h"
#include "frontend/const_eval_testing.h"

namespace heddle {
namespace {

using namespace const_eval_testing;
using ::testing::HasSubstr;

TEST(ConstEvalTest, FloatFunctions) {
  struct Case {
    std::string_view op;
    double x, y;
  };
  const Case cases[] = {
      {"Neg", 1.5, -1.5},
      {"Abs", -1.5, 1.5},
      {"Exp", 1, 2.718281828459045},
      {"Log", 2, 0.6931471805599453},
      {"Sqrt", 2, 1.4142135623730951},
      {"Reciprocal", 8, 0.125},
      {"Sin", 1, 0.8414709848078965},
      {"Cos", 1, 0.5403023058681398},
      {"Tan", 1, 1.5574077246549023},
      {"Asin", 0.5, 0.5235987755982989},
      {"Acos", 0.5, 1.0471975511965979},
      {"Atan", 1, 0.7853981633974483},
      {"Sinh", 1, 1.1752011936438014},
      {"Cosh", 1, 1.5430806348152437},
      {"Asinh", 1, 0.881373587019543},
      {"Acosh", 2, 1.3169578969248166},
      {"Atanh", 0.5, 0.5493061443340549},
      {"Tanh", 1, 0.7615941559557649},
      {"Sigmoid", 1, 0.7310585786300049},
      {"Erf", 0.5, 0.5204998778130465},
      {"Relu", -2, 0},
      {"Relu", 2, 2},
      {"Silu", 1, 0.7310585786300049},
      {"Softplus", 1, 1.3132616875182228},
      {"Softplus", 200, 200},
      {"Softsign", -3, -0.75},
      {"Mish", 1, 0.8650983882673103},
      {"HardSwish", 1, 0.6666666666666666},
      {"Selu", -1, -1.1113307378125625},
      {"Selu", 1, 1.0507010221481323},
      {"Floor", -1.5, -2},
      {"Ceil", -1.5, -1},
      {"Round", 2.5, 2},
      {"Round", -3.5, -4},
      {"Sign", -3, -1},
      {"Gelu", 1, 0.8413447460685429},
      {"LeakyRelu", -1, -0.01},
      {"Elu", -1, -0.6321205588285577},
      {"Celu", -1, -0.6321205588285577},
      {"ThresholdedRelu", 1, 0},
      {"ThresholdedRelu", 1.5, 1.5},
      {"HardSigmoid", 1, 0.7},
      {"Identity", 3, 3},
  };
  for (const Case& c : cases) {
    const double tolerance = std::abs(c.y);
    EXPECT_NEAR(Unary(c.op, {c.x}, DType::kF64)[0], c.y, 1e-7 * tolerance) << c.op;
    EXPECT_NEAR(Unary(c.op, {c.x}, DType::kF32)[0], c.y, 3e-7 * tolerance) << c.op;
    EXPECT_NEAR(Unary(c.op, {c.x}, DType::kF16)[0], c.y, 1e-3 * tolerance) << c.op;
    EXPECT_NEAR(Unary(c.op, {c.x}, DType::kBF16)[0], c.y, 8e-3 * tolerance) << c.op;
  }
}

TEST(ConstEvalTest, FunctionsWithAttributes) {
  EXPECT_NEAR(Unary("Gelu", {1}, DType::kF64, {{"approximate", "tanh"}})[0], 0.8411919906082768,
              1e-12);
  EXPECT_EQ(Unary("LeakyRelu", {-2, 2}, DType::kF32, {{"alpha", 0.25}}), (Doubles{-0.5, 2}));
  EXPECT_NEAR(Unary("Celu", {-2}, DType::kF64, {{"alpha", 2.0}})[0], 2 * std::expm1(-1), 1e-15);
  EXPECT_EQ(Unary("HardSigmoid", {-9, 0, 9}, DType::kF32, {{"alpha", 0.5}, {"beta", 0.25}}),
            (Doubles{0, 0.25, 1}));
  EXPECT_EQ(Unary("Clip", {-5, 0.5, 5}, DType::kF32, {{"min", -1.0}, {"max", 2.0}}),
            (Doubles{-1, 0.5, 2}));
  EXPECT_EQ(Unary("Clip", {-5, 5}, DType::kI32, {{"min", 0.0}}), (Doubles{0, 5}));
  EXPECT_EQ(Unary("Clip", {-5, 5}, DType::kF32), (Doubles{-5, 5}));
}

TEST(ConstEvalTest, SingleAndHalfPrecisionRound) {
  // 2^24 + 1 cannot be represented as a float, 2049 as a half, 257 as a bfloat16.
  EXPECT_EQ(Binary("Add", {16777216}, {1})[0], 16777216);
  EXPECT_EQ(Binary("Add", {16777216}, {1}, DType::kF64)[0], 16777217);
  EXPECT_EQ(Binary("Add", {2048}, {1}, DType::kF16)[0], 2048);
  EXPECT_EQ(Binary("Add", {256}, {1}, DType::kBF16)[0], 256);
  EXPECT_EQ(Binary("Div", {1}, {3})[0], static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(Unary("Sqrt", {2})[0], static_cast<double>(std::sqrt(2.0f)));
  EXPECT_EQ(Binary("Mul", {60000}, {2}, DType::kF16)[0], kInf);
}

TEST(ConstEvalTest, IntegerFunctionsWrap) {
  const ConstTensor x = IVec({kMin, -3, 0, 4});
  EXPECT_EQ(IntValues(Eval("Neg", {}, {x}, x.type())), (Ints{kMin, 3, 0, -4}));
  EXPECT_EQ(IntValues(Eval("Abs", {}, {x}, x.type())), (Ints{kMin, 3, 0, 4}));
  EXPECT_EQ(IntValues(Eval("Sign", {}, {x}, x.type())), (Ints{-1, -1, 0, 1}));
  EXPECT_EQ(IntValues(Eval("Relu", {}, {x}, x.type())), (Ints{0, 0, 0, 4}));
  EXPECT_EQ(IntValues(Eval("BitwiseNot", {}, {x}, x.type())), (Ints{kMax, 2, -1, -5}));
  EXPECT_EQ(IntValues(Eval("Floor", {}, {x}, x.type())), (Ints{kMin, -3, 0, 4}));
  EXPECT_EQ(Unary("BitwiseNot", {1}, DType::kU8), (Doubles{254}));
  EXPECT_EQ(Unary("Neg", {-128}, DType::kI8), (Doubles{-128}));
  EXPECT_EQ(Binary("Add", {250}, {10}, DType::kU8), (Doubles{4}));
  EXPECT_EQ(Binary("Mul", {300}, {300}, DType::kI16), (Doubles{24464}));
  EXPECT_EQ(Binary("Div", {-2147483648.0}, {-1}, DType::kI32), (Doubles{-2147483648.0}));
  EXPECT_FALSE(TryEval("Exp", {}, {x}, x.type()));
}

TEST(ConstEvalTest, IntegerArithmetic) {
  const auto ints = [](std::string_view op, Ints a, Ints b, const Attributes& attributes = {}) {
    const ConstTensor left = IVec(std::move(a));
    return IntValues(Eval(op, attributes, {left, IVec(std::move(b))}, left.type()));
  };
  EXPECT_EQ(ints("Add", {kMax, 1}, {1, 2}), (Ints{kMin, 3}));
  EXPECT_EQ(ints("Sub", {kMin, 1}, {1, 2}), (Ints{kMax, -1}));
  EXPECT_EQ(ints("Mul", {kMax, 3}, {2, -2}), (Ints{-2, -6}));
  EXPECT_EQ(ints("Div", {kMin, -7, 7}, {-1, 2, -2}), (Ints{kMin, -3, -3}));
  EXPECT_EQ(ints("Mod", {-7, 7, kMin, -7}, {3, -3, -1, 7}), (Ints{2, -2, 0, 0}));
  EXPECT_EQ(ints("Mod", {-7, 7, kMin}, {3, -3, -1}, {{"fmod", int64_t{1}}}), (Ints{-1, 1, 0}));
  EXPECT_EQ(ints("Pow", {3, -2, 7, 2, 1, -1}, {4, 3, 0, -1, -5, -3}), (Ints{81, -8, 1, 0, 1, -1}));
  EXPECT_EQ(ints("Pow", {2}, {64}), (Ints{0}));
  EXPECT_EQ(ints("Maximum", {1, 5}, {2, 4}), (Ints{2, 5}));
  EXPECT_EQ(ints("Minimum", {1, 5}, {2, 4}), (Ints{1, 4}));
  EXPECT_EQ(ints("BitwiseAnd", {12, -1}, {10, 7}), (Ints{8, 7}));
  EXPECT_EQ(ints("BitwiseOr", {12}, {10}), (Ints{14}));
  EXPECT_EQ(ints("BitwiseXor", {12}, {10}), (Ints{6}));
  for (const std::string_view op : {"Div", "Mod"}) {
    EXPECT_FALSE(TryEval(op, {}, {IVec({1, 2}), IVec({1, 0})}, {DType::kI64, {2}})) << op;
  }
  EXPECT_FALSE(TryEval("Pow", {}, {IVec({0}), IVec({-1})}, {DType::kI64, {1}}));
}

TEST(ConstEvalTest, FloatArithmetic) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(Binary("Add", {1, 2}, {0.5, -4}, dtype), (Doubles{1.5, -2}));
    EXPECT_EQ(Binary("Sub", {1, 2}, {0.5, -4}, dtype), (Doubles{0.5, 6}));
    EXPECT_EQ(Binary("Mul", {1, 2}, {0.5, -4}, dtype), (Doubles{0.5, -8}));
    EXPECT_EQ(Binary("Div", {1, 2}, {0.5, 0}, dtype), (Doubles{2, kInf}));
    EXPECT_EQ(Binary("Pow", {2, 4}, {3, -0.5}, dtype), (Doubles{8, 0.5}));
    EXPECT_EQ(Binary("Mod", {-7.5, 7.5}, {2, -2}, dtype), (Doubles{0.5, -0.5}));
    EXPECT_EQ(Binary("Mod", {-7.5, 7.5}, {2, -2}, dtype, {{"fmod", int64_t{1}}}),
              (Doubles{-1.5, 1.5}));
    EXPECT_EQ(Binary("PRelu", {-2, 2}, {0.25, 0.25}, dtype), (Doubles{-0.5, 2}));
    EXPECT_EQ(Binary("Maximum", {1, 5}, {2, 4}, dtype), (Doubles{2, 5}));
    EXPECT_EQ(Binary("Minimum", {1, 5}, {2, 4}, dtype), (Doubles{1, 4}));
  }
  for (const std::string_view op : {"Maximum", "Minimum"}) {
    EXPECT_TRUE(std::isnan(Binary(op, {kNaN}, {1})[0]));
    EXPECT_TRUE(std::isnan(Binary(op, {1}, {kNaN})[0]));
  }
}

TEST(ConstEvalTest, PowHasTheTypeOfItsBase) {
  EXPECT_EQ(Values(Eval("Pow", {}, {Vec({1.5}), IVec({2})}, {DType::kF32, {1}})), (Doubles{2.25}));
  EXPECT_EQ(IntValues(Eval("Pow", {}, {IVec({9, 2}), Vec({0.5, 100})}, {DType::kI64, {2}})),
            (Ints{3, kMax}));
}

TEST(ConstEvalTest, ComparisonsAndLogic) {
  const auto bools = [](std::string_view op, ConstTensor a, ConstTensor b) {
    return IntValues(Eval(op, {}, {a, b}, {DType::kBool, a.shape}));
  };
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kU8}) {
    const ConstTensor a = Vec({1, 2, 3}, dtype);
    const ConstTensor b = Vec({2, 2, 2}, dtype);
    EXPECT_EQ(bools("Equal", a, b), (Ints{0, 1, 0}));
    EXPECT_EQ(bools("Less", a, b), (Ints{1, 0, 0}));
    EXPECT_EQ(bools("LessOrEqual", a, b), (Ints{1, 1, 0}));
    EXPECT_EQ(bools("Greater", a, b), (Ints{0, 0, 1}));
    EXPECT_EQ(bools("GreaterOrEqual", a, b), (Ints{0, 1, 1}));
  }
  const ConstTensor p = B({4}, {0, 0, 1, 1});
  const ConstTensor q = B({4}, {0, 1, 0, 1});
  EXPECT_EQ(bools("And", p, q), (Ints{0, 0, 0, 1}));
  EXPECT_EQ(bools("Or", p, q), (Ints{0, 1, 1, 1}));
  EXPECT_EQ(bools("Xor", p, q), (Ints{0, 1, 1, 0}));
  EXPECT_EQ(bools("Equal", p, q), (Ints{1, 0, 0, 1}));
  EXPECT_EQ(IntValues(Eval("Not", {}, {p}, p.type())), (Ints{1, 1, 0, 0}));
  EXPECT_EQ(IntValues(Eval("BitwiseNot", {}, {p}, p.type())), (Ints{1, 1, 0, 0}));
  const ConstTensor odd = Vec({kNaN, -kInf, 1}, DType::kF16);
  EXPECT_EQ(IntValues(Eval("IsNaN", {}, {odd}, {DType::kBool, {3}})), (Ints{1, 0, 0}));
  EXPECT_EQ(IntValues(Eval("IsInf", {}, {odd}, {DType::kBool, {3}})), (Ints{0, 1, 0}));
}

TEST(ConstEvalTest, CastBetweenAllTypes) {
  for (const DTypeInfo& from : AllDTypes()) {
    for (const DTypeInfo& to : AllDTypes()) {
      const ConstTensor x = Vec({0, 1}, from.dtype);
      EXPECT_EQ(Values(Eval("Cast", {{"to", std::string(to.name)}}, {x}, {to.dtype, {2}})),
                (Doubles{0, 1}))
          << from.name << " to " << to.name;
    }
  }
}

TEST(ConstEvalTest, CastTruncatesSaturatesAndWraps) {
  const auto cast = [](ConstTensor x, DType to) {
    return Eval("Cast", {{"to", std::string(Name(to))}}, {x}, {to, x.shape});
  };
  const ConstTensor x = Vec({-1.9, 1.9, kNaN, 1e30, -kInf, 300});
  EXPECT_EQ(IntValues(cast(x, DType::kI64)), (Ints{-1, 1, 0, kMax, kMin, 300}));
  EXPECT_EQ(IntValues(cast(x, DType::kI32)), (Ints{-1, 1, 0, 2147483647, -2147483648, 300}));
  EXPECT_EQ(IntValues(cast(x, DType::kI8)), (Ints{-1, 1, 0, 127, -128, 127}));
  EXPECT_EQ(IntValues(cast(x, DType::kU8)), (Ints{0, 1, 0, 255, 0, 255}));
  EXPECT_EQ(IntValues(cast(x, DType::kBool)), (Ints{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(IntValues(cast(Vec({9223372036854775808.0}, DType::kF64), DType::kI64)), (Ints{kMax}));
  EXPECT_EQ(IntValues(cast(IVec({257, -1, kMin}), DType::kU8)), (Ints{1, 255, 0}));
  EXPECT_EQ(IntValues(cast(IVec({kMax, 1 << 15}), DType::kI16)), (Ints{-1, -32768}));
  EXPECT_EQ(Values(cast(IVec({16777217}), DType::kF32)), (Doubles{16777216}));
  EXPECT_EQ(Values(cast(Vec({65520, 1e-9}), DType::kF16)), (Doubles{kInf, 0}));
  EXPECT_EQ(IntValues(cast(Vec({0, -0.0, 0.5}), DType::kBool)), (Ints{0, 0, 1}));
}

TEST(ConstEvalTest, Broadcasting) {
  const ConstTensor column = I({3, 1}, {10, 20, 30});
  const ConstTensor row = IVec({1, 2});
  EXPECT_EQ(IntValues(Eval("Add", {}, {column, row}, {DType::kI64, {3, 2}})),
            (Ints{11, 12, 21, 22, 31, 32}));
  EXPECT_EQ(IntValues(Eval("Sub", {}, {row, column}, {DType::kI64, {3, 2}})),
            (Ints{-9, -8, -19, -18, -29, -28}));
  EXPECT_EQ(IntValues(Eval("Mul", {}, {I({}, {2}), row}, {DType::kI64, {2}})), (Ints{2, 4}));
  const ConstTensor block = I({2, 1, 2}, {1, 2, 3, 4});
  EXPECT_EQ(IntValues(Eval("Add", {}, {block, column}, {DType::kI64, {2, 3, 2}})),
            (Ints{11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34}));
  EXPECT_EQ(
      IntValues(Eval("Where", {}, {B({2, 1}, {1, 0}), row, I({1}, {-1})}, {DType::kI64, {2, 2}})),
      (Ints{1, 2, -1, -1}));
  EXPECT_THAT(InputErrorOf("Add", {}, {row, IVec({1, 2, 3})}, {{DType::kI64, {3}}}),
              HasSubstr("Add: sizes 2 and 3 do not broadcast"));
}

TEST(ConstEvalTest, MatMul) {
  const ConstTensor a = F({2, 2}, {1, 2, 3, 4});
  const ConstTensor b = F({2, 3}, {1, 0, 2, 0, 1, -1});
  EXPECT_EQ(Values(Eval("MatMul", {}, {a, b}, {DType::kF32, {2, 3}})), (Doubles{1, 2, 0, 3, 4, 2}));
  const ConstTensor batch = I({2, 1, 2}, {1, 2, 3, 4});
  const ConstTensor single = I({2, 1}, {5, 6});
  EXPECT_EQ(IntValues(Eval("MatMul", {}, {batch, single}, {DType::kI64, {2, 1, 1}})),
            (Ints{17, 39}));
  // Rows, depth and columns repeat: 3 * 2 * 5, stored once.
  const ConstTensor twos = {{4, 3}, I({1, 1}, {2}).storage};
  const ConstTensor fives = {{3, 7}, I({1, 1}, {5}).storage};
  const ConstTensor product = Eval("MatMul", {}, {twos, fives}, {DType::kI64, {4, 7}});
  EXPECT_EQ(SplatValue(product), 30);
  EXPECT_EQ(product.storage->size(), 1);
  EXPECT_THAT(InputErrorOf("MatMul", {}, {b, b}, {{DType::kF32, {2, 3}}}),
              HasSubstr("inner sizes"));
}

}  // namespace
}  // namespace heddle
