#include "frontend/fuse_patterns.h"

#include <cmath>
#include <limits>

#include "ops/op.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;
using M = PatternModel;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

// --- Activations ---------------------------------------------------------------------------------

ValueId GeluInput(M& m) { return m.Activation({2, 3, 4}); }

ValueId OnePlusErf(M& m, ValueId x, bool by_division = true) {
  ValueId scaled = by_division ? m("Div", {x, m.Scalar(1.4142135381698608)})
                               : m("Mul", {x, m.Scalar(0.70710678118)});
  return m("Add", {m("Erf", {scaled}), m.Scalar(1)});
}

ValueId Cube(M& m, ValueId x) { return m("Pow", {x, m.Scalar(3)}); }

// 1 + tanh(sqrt(2/pi) (x + cubic)), constants first or last.
ValueId OnePlusTanh(M& m, ValueId x, ValueId cubic, bool constants_first) {
  auto op = [&](std::string_view name, ValueId a, ValueId b) {
    return constants_first ? m(name, {b, a}) : m(name, {a, b});
  };
  ValueId inner = op("Mul", op("Add", x, cubic), m.Scalar(0.7978845608028654));
  return op("Add", m("Tanh", {inner}), m.Scalar(1));
}

// --- Normalisations ------------------------------------------------------------------------------

ValueId NormInput(M& m) { return m.Activation({2, 3, 8}); }

ValueId Mean(M& m, ValueId x, int64_t axis) {
  return m("ReduceMean", {x}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}});
}

ValueId Deviation(M& m, ValueId x, bool by_pow = true, int64_t axis = 2) {
  ValueId square = by_pow ? m("Pow", {x, m.Scalar(2)}) : m("Mul", {x, x});
  return m("Sqrt", {m("Add", {Mean(m, square, axis), m.Scalar(1e-5)})});
}

ValueId Centred(M& m, ValueId x) { return m("Sub", {x, Mean(m, x, 2)}); }

// --- Attention -----------------------------------------------------------------------------------

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 5, kWidth = 3;

ValueId Heads(M& m) { return m.Activation({kBatch, kHeads, kLength, kWidth}); }

ValueId SwapLast(M& m, ValueId x) {
  Ints perm;
  for (size_t d = 0; d < m.shape(x).size(); ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[perm.size() - 2], perm.back());
  return m("Transpose", {x}, {{"perm", perm}});
}

ValueId Product(M& m) { return m("MatMul", {Heads(m), SwapLast(m, Heads(m))}); }
ValueId ScaledProduct(M& m) { return m("Mul", {Product(m), m.Scalar(0.4)}); }

ValueId Softmax(M& m, ValueId scores, int64_t axis = -1) {
  return m("Softmax", {scores}, {{"axis", axis}});
}
ValueId Attend(M& m, ValueId scores) { return m("MatMul", {Softmax(m, scores), Heads(m)}); }

// Random numbers with a few entries masked, none of them a whole row.
ValueId SparseMask(M& m) {
  std::vector<double> numbers(kLength * kLength, 0);
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = -kInf;
  return m.Constant({1, 1, kLength, kLength}, numbers);
}

// True where a causal mask keeps the score.
ValueId CausalCondition(M& m) {
  std::vector<double> kept;
  for (int64_t i = 0; i < kLength * kLength; ++i) kept.push_back(i % kLength <= i / kLength);
  return m.Constant({1, 1, kLength, kLength}, kept, DType::kBool);
}

ValueId PaddingCondition(M& m, std::vector<double> kept) {
  return m.Constant({1, 1, 1, kLength}, kept, DType::kBool);
}

// [b,2,s,d] repeated to [b,4,s,d], each head twice.
ValueId RepeatHeads(M& m, ValueId x, bool adjacent = true) {
  Ints narrow = {kBatch, 2, 1, kLength, kWidth}, wide = {kBatch, 2, 2, kLength, kWidth};
  if (!adjacent) std::swap(narrow[1], narrow[2]);
  ValueId inserted = m("Reshape", {x}, {{"shape", narrow}});
  ValueId repeated = m("Expand", {inserted}, {{"shape", wide}});
  return m("Reshape", {repeated}, {{"shape", Ints{kBatch, 4, kLength, kWidth}}});
}
ValueId FewHeads(M& m) { return m.Activation({kBatch, 2, kLength, kWidth}); }

ValueId GuardNaN(M& m, ValueId p) { return m("Where", {m("IsNaN", {p}), m.Scalar(0), p}); }

// --- Linear --------------------------------------------------------------------------------------

ValueId Rows(M& m) { return m.Activation({2, 3, 4}); }
ValueId Turned(M& m) { return m("Transpose", {m.Parameter({5, 4})}, {{"perm", Ints{1, 0}}}); }

// --- The lists -----------------------------------------------------------------------------------

const std::vector<FusePattern>& Positive() {
  static const std::vector<FusePattern> patterns = {
      {"GeluHalfXFirst", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, m.Scalar(0.5)}), OnePlusErf(m, x)});
       }},
      {"GeluHalfOutside", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m.Scalar(0.5), m("Mul", {x, OnePlusErf(m, x)})});
       }},
      {"GeluHalfLast", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, OnePlusErf(m, x)}), m.Scalar(0.5)});
       }},
      {"GeluHalvedErf", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {x, m("Mul", {m.Scalar(0.5), OnePlusErf(m, x)})});
       }},
      {"GeluErfFirst", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {OnePlusErf(m, x), m("Mul", {m.Scalar(0.5), x})});
       }},
      {"GeluHalfByDivision", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Div", {x, m.Scalar(2)}), OnePlusErf(m, x)});
       }},
      {"GeluByMultiplication", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, m.Scalar(0.5)}), OnePlusErf(m, x, false)});
       }},
      {"GeluNumbersAsVectors", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId half = m.Constant({1}, std::vector<double>{0.5});
         return m("Mul", {m("Mul", {x, half}), OnePlusErf(m, x)});
       }},
      {"GeluOfAProduct", "Mul Gelu",
       [](M& m) {
         ValueId x = m("Mul", {GeluInput(m), m.Scalar(3)});
         return m("Mul", {m("Mul", {x, m.Scalar(0.5)}), OnePlusErf(m, x)});
       }},
      {"GeluTanhPow", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {Cube(m, x), m.Scalar(0.044715)});
         ValueId half = m("Mul", {m.Scalar(0.5), x});
         return m("Mul", {half, OnePlusTanh(m, x, cubic, false)});
       }},
      {"GeluTanhProduct", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {m.Scalar(0.044715), m("Mul", {m("Mul", {x, x}), x})});
         return m("Mul", {m.Scalar(0.5), m("Mul", {x, OnePlusTanh(m, x, cubic, true)})});
       }},
      {"GeluTanhTwoBranches", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {m("Mul", {m.Scalar(0.044715), x}), m("Mul", {x, x})});
         return m("Mul", {m("Mul", {x, OnePlusTanh(m, x, cubic, true)}), m.Scalar(0.5)});
       }},
      {"GeluTanhChain", "Gelu",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {m("Mul", {m("Mul", {x, m.Scalar(0.044715)}), x}), x});
         return m("Mul", {x, m("Mul", {OnePlusTanh(m, x, cubic, false), m.Scalar(0.5)})});
       }},
      {"Silu", "Silu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {x, m("Sigmoid", {x})});
       }},
      {"SiluSigmoidFirst", "Silu",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Sigmoid", {x}), x});
       }},
      {"SiluGate", "Silu Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, m("Sigmoid", {x})}), GeluInput(m)});
       }},
      {"SiluScaled", "Silu Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, m("Sigmoid", {x})}), m.Scalar(1.7)});
       }},

      {"RMSNormReciprocal", "RMSNorm",
       [](M& m) {
         ValueId x = NormInput(m);
         ValueId y = m("Mul", {x, m("Reciprocal", {Deviation(m, x)})});
         return m("Mul", {y, m.Parameter({8})});
       }},
      {"RMSNormWeightFirst", "RMSNorm",
       [](M& m) {
         ValueId x = NormInput(m);
         ValueId y = m("Mul", {m("Reciprocal", {Deviation(m, x, false)}), x});
         return m("Mul", {m.Parameter({8}), y});
       }},
      {"RMSNormDiv", "RMSNorm",
       [](M& m) {
         ValueId x = NormInput(m);
         return m("Mul", {m("Div", {x, Deviation(m, x)}), m.Parameter({8})});
       }},
      {"RMSNormDivWeightFirst", "RMSNorm",
       [](M& m) {
         ValueId x = NormInput(m);
         return m("Mul", {m.Parameter({8}), m("Div", {x, Deviation(m, x, false, -1)})});
       }},
      {"RMSNormOneOverRoot", "RMSNorm",
       [](M& m) {
         ValueId x = NormInput(m);
         ValueId y = m("Mul", {x, m("Div", {m.Scalar(1), Deviation(m, x)})});
         return m("Mul", {m.Parameter({8}), y});
       }},
      {"RMSNormOfAProduct", "Mul RMSNorm",
       [](M& m) {
         ValueId x = m("Mul", {NormInput(m), NormInput(m)});
         ValueId y = m("Mul", {x, m("Reciprocal", {Deviation(m, x)})});
         return m("Mul", {m.Parameter({8}), y});
       }},
      {"LayerNormDiv", "LayerNorm",
       [](M& m) {
         ValueId c = Centred(m, NormInput(m));
         ValueId y = m("Mul", {m("Div", {c, Deviation(m, c)}), m.Parameter({8})});
         return m("Add", {y, m.Parameter({8})});
       }},
      {"LayerNormAllSwapped", "LayerNorm",
       [](M& m) {
         ValueId c = Centred(m, NormInput(m));
         ValueId y = m("Mul", {m.Parameter({8}), m("Div", {c, Deviation(m, c, false)})});
         return m("Add", {m.Parameter({8}), y});
       }},
      {"LayerNormReciprocal", "LayerNorm",
       [](M& m) {
         ValueId c = Centred(m, NormInput(m));
         ValueId y = m("Mul", {c, m("Reciprocal", {Deviation(m, c)})});
         return m("Add", {m("Mul", {y, m.Parameter({8})}), m.Parameter({8})});
       }},

      {"AttentionScaleMul", "Attention", [](M& m) { return Attend(m, ScaledProduct(m)); }},
      {"AttentionScaleDiv", "Attention",
       [](M& m) {
         return Attend(m, m("Div", {Product(m), m.Scalar(2.5)}));
       }},
      {"AttentionNoScale", "Attention", [](M& m) { return Attend(m, Product(m)); }},
      {"AttentionScaledQuery", "Attention",
       [](M& m) {
         ValueId q = m("Mul", {Heads(m), m.Scalar(0.4)});
         return Attend(m, m("MatMul", {q, SwapLast(m, Heads(m))}));
       }},
      {"AttentionBothScaled", "Attention",
       [](M& m) {
         ValueId q = m("Mul", {Heads(m), m.Scalar(0.6)});
         ValueId k = m("Mul", {SwapLast(m, Heads(m)), m.Scalar(0.6)});
         return Attend(m, m("MatMul", {q, k}));
       }},
      {"AttentionScaledKey", "Attention",
       [](M& m) {
         ValueId k = SwapLast(m, m("Div", {Heads(m), m.Scalar(2)}));
         return Attend(m, m("MatMul", {Heads(m), k}));
       }},
      {"AttentionThreeDimensions", "Attention",
       [](M& m) {
         ValueId q = m.Activation({kHeads, kLength, kWidth});
         ValueId k = SwapLast(m, m.Activation({kHeads, 7, kWidth}));
         ValueId p = Softmax(m, m("MatMul", {q, k}), 2);
         return m("MatMul", {p, m.Activation({kHeads, 7, 2})});
       }},
      {"AttentionBias", "Attention",
       [](M& m) {
         return Attend(m, m("Add", {ScaledProduct(m), m.Input({kBatch, 1, 1, kLength})}));
       }},
      {"AttentionBiasFirst", "Attention",
       [](M& m) {
         ValueId bias = m.Parameter({1, kHeads, kLength, kLength});
         return Attend(m, m("Add", {bias, ScaledProduct(m)}));
       }},
      {"AttentionBiasOfWholeSize", "Mul Attention",
       [](M& m) {
         Shape whole = {kBatch, kHeads, kLength, kLength};
         ValueId bias = m("Mul", {m.Input(whole), m.Parameter(whole)});
         return Attend(m, m("Add", {bias, ScaledProduct(m)}));
       }},
      {"AttentionScalarBias", "Attention",
       [](M& m) {
         return Attend(m, m("Add", {ScaledProduct(m), m.Scalar(0.5)}));
       }},
      {"AttentionTwoBiases", "Add Attention",
       [](M& m) {
         ValueId inner = m("Add", {ScaledProduct(m), m.Parameter({1, kHeads, kLength, kLength})});
         return Attend(m, m("Add", {m.Input({kBatch, 1, 1, kLength}), inner}));
       }},
      {"AttentionCausal", "Attention",
       [](M& m) {
         return Attend(m, m("Add", {ScaledProduct(m), m.CausalMask(kLength, kLowest)}));
       }},
      {"AttentionCausalInfinite", "Attention",
       [](M& m) {
         return Attend(m, m("Add", {m.CausalMask(kLength, -kInf), ScaledProduct(m)}));
       }},
      {"AttentionCausalAndBias", "Attention",
       [](M& m) {
         ValueId masked = m("Add", {ScaledProduct(m), m.CausalMask(kLength, -1e4)});
         return Attend(m, m("Add", {masked, m.Parameter({kBatch, 1, 1, kLength})}));
       }},
      {"AttentionConstantMask", "Attention",
       [](M& m) {
         return Attend(m, m("Add", {ScaledProduct(m), SparseMask(m)}));
       }},
      {"AttentionWhereKept", "Attention",
       [](M& m) {
         ValueId kept = CausalCondition(m);
         return Attend(m, m("Where", {kept, ScaledProduct(m), m.Scalar(kLowest)}));
       }},
      {"AttentionMaskedFill", "Attention",
       [](M& m) {
         ValueId masked = m.CausalMask(kLength, 1, DType::kBool);
         return Attend(m, m("Where", {masked, m.Scalar(-kInf), ScaledProduct(m)}));
       }},
      {"AttentionMaskedFillThenBias", "Attention",
       [](M& m) {
         ValueId masked = m.CausalMask(kLength, 1, DType::kBool);
         ValueId scores = m("Where", {masked, m.Scalar(-1e4), ScaledProduct(m)});
         return Attend(m, m("Add", {scores, m.Parameter({kBatch, 1, 1, kLength})}));
       }},
      {"AttentionConstantPadding", "Attention",
       [](M& m) {
         ValueId kept = PaddingCondition(m, {1, 1, 0, 1, 0});
         return Attend(m, m("Where", {kept, ScaledProduct(m), m.Scalar(-1e9)}));
       }},
      {"AttentionNaNGuard", "Attention",
       [](M& m) {
         ValueId scores = m("Add", {ScaledProduct(m), m.CausalMask(kLength, -kInf)});
         return m("MatMul", {GuardNaN(m, Softmax(m, scores)), Heads(m)});
       }},
      {"AttentionNaNGuardNoMask", "Attention",
       [](M& m) {
         return m("MatMul", {GuardNaN(m, Softmax(m, ScaledProduct(m))), Heads(m)});
       }},
      {"AttentionOtherTransposition", "Transpose Attention",
       [](M& m) {
         ValueId k = m.Activation({kBatch, kLength, kHeads, kWidth});
         ValueId turned = m("Transpose", {k}, {{"perm", Ints{0, 2, 3, 1}}});
         return Attend(m, m("MatMul", {Heads(m), turned}));
       }},
      {"AttentionKeysGivenTurned", "Transpose Attention",
       [](M& m) {
         ValueId k = m.Activation({kBatch, kHeads, kWidth, kLength});
         return Attend(m, m("MatMul", {Heads(m), k}));
       }},
      {"AttentionGroupedQuery", "Attention",
       [](M& m) {
         ValueId k = RepeatHeads(m, FewHeads(m)), v = RepeatHeads(m, FewHeads(m));
         ValueId p = Softmax(m, m("MatMul", {Heads(m), SwapLast(m, k)}));
         return m("MatMul", {p, v});
       }},
      {"AttentionGroupedQueryScaledKeys", "Attention",
       [](M& m) {
         ValueId k = SwapLast(m, RepeatHeads(m, FewHeads(m))), v = RepeatHeads(m, FewHeads(m));
         ValueId scores = m("MatMul", {Heads(m), m("Mul", {k, m.Scalar(0.5)})});
         scores = m("Add", {scores, m.CausalMask(kLength, -kInf)});
         return m("MatMul", {Softmax(m, scores), v});
       }},
      {"AttentionHeadsRepeatedInTurn", "Reshape Expand Reshape Reshape Expand Reshape Attention",
       [](M& m) {
         ValueId k = RepeatHeads(m, FewHeads(m), false), v = RepeatHeads(m, FewHeads(m), false);
         ValueId p = Softmax(m, m("MatMul", {Heads(m), SwapLast(m, k)}));
         return m("MatMul", {p, v});
       }},
      {"AttentionOnlyKeysRepeated", "Reshape Expand Reshape Attention",
       [](M& m) {
         ValueId k = RepeatHeads(m, FewHeads(m));
         return Attend(m, m("MatMul", {Heads(m), SwapLast(m, k)}));
       }},

      {"Linear", "Linear",
       [](M& m) {
         return m("MatMul", {Rows(m), m.Parameter({4, 5})});
       }},
      {"LinearTurned", "Linear",
       [](M& m) {
         return m("MatMul", {Rows(m), Turned(m)});
       }},
      {"LinearBias", "Linear",
       [](M& m) {
         return m("Add", {m("MatMul", {Rows(m), m.Parameter({4, 5})}), m.Parameter({5})});
       }},
      {"LinearBiasFirst", "Linear",
       [](M& m) {
         return m("Add", {m.Parameter({5}), m("MatMul", {Rows(m), Turned(m)})});
       }},
      {"LinearUsedTwice", "Linear Add Add",
       [](M& m) {
         ValueId y = m("MatMul", {Rows(m), Turned(m)});
         return m("Add", {m("Add", {y, m.Parameter({5})}), y});
       }},
      {"LinearSharedWeight", "Linear Linear Add",
       [](M& m) {
         ValueId w = Turned(m);
         return m("Add", {m("MatMul", {Rows(m), w}), m("MatMul", {Rows(m), w})});
       }},
      {"LinearConstantBias", "Linear Add",
       [](M& m) {
         ValueId bias = m.Constant({5}, std::vector<double>{1, 2, 3, 4, 5});
         return m("Add", {m("MatMul", {Rows(m), Turned(m)}), bias});
       }},
      {"LinearBiasOfRows", "Linear Add",
       [](M& m) {
         return m("Add", {m("MatMul", {Rows(m), Turned(m)}), m.Parameter({3, 5})});
       }},
  };
  return patterns;
}

const std::vector<FusePattern>& Negative() {
  static const std::vector<FusePattern> patterns = {
      {"GeluOfSixTenths", "Mul Div Erf Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {m("Mul", {x, m.Scalar(0.6)}), OnePlusErf(m, x)});
       }},
      {"GeluWithoutHalf", "Div Erf Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         return m("Mul", {x, OnePlusErf(m, x)});
       }},
      {"GeluTwoPlusErf", "Div Erf Mul Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId erf = m("Erf", {m("Div", {x, m.Scalar(std::sqrt(2.0))})});
         return m("Mul", {m("Mul", {x, m.Scalar(0.5)}), m("Add", {erf, m.Scalar(2)})});
       }},
      {"GeluWrongRoot", "Div Erf Mul Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId erf = m("Erf", {m("Div", {x, m.Scalar(1.5)})});
         return m("Mul", {m("Mul", {x, m.Scalar(0.5)}), m("Add", {erf, m.Scalar(1)})});
       }},
      {"GeluOfTwoInputs", "Mul Div Erf Add Mul",
       [](M& m) {
         return m("Mul", {m("Mul", {GeluInput(m), m.Scalar(0.5)}), OnePlusErf(m, GeluInput(m))});
       }},
      {"GeluErfUsedElsewhere", "Div Erf Add Mul Mul Add",
       [](M& m) {
         ValueId x = GeluInput(m), e = OnePlusErf(m, x);
         return m("Add", {m("Mul", {m("Mul", {x, m.Scalar(0.5)}), e}), e});
       }},
      {"GeluTanhWrongCube", "Pow Mul Mul Add Mul Tanh Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {Cube(m, x), m.Scalar(0.05)});
         ValueId half = m("Mul", {m.Scalar(0.5), x});
         return m("Mul", {half, OnePlusTanh(m, x, cubic, false)});
       }},
      {"GeluTanhSquare", "Pow Mul Mul Add Mul Tanh Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId cubic = m("Mul", {m("Pow", {x, m.Scalar(2)}), m.Scalar(0.044715)});
         ValueId half = m("Mul", {m.Scalar(0.5), x});
         return m("Mul", {half, OnePlusTanh(m, x, cubic, false)});
       }},
      {"GeluBroadcast", "Mul Div Erf Add Mul",
       [](M& m) {
         ValueId x = GeluInput(m);
         ValueId half = m.Constant({1, 1, 1, 1}, std::vector<double>{0.5});
         return m("Mul", {m("Mul", {x, half}), OnePlusErf(m, x)});
       }},
      {"SiluOfTwoInputs", "Sigmoid Mul",
       [](M& m) {
         return m("Mul", {GeluInput(m), m("Sigmoid", {GeluInput(m)})});
       }},

      {"RMSNormOverRows", "Pow ReduceMean Add Sqrt Div Mul",
       [](M& m) {
         ValueId x = NormInput(m);
         return m("Mul", {m("Div", {x, Deviation(m, x, true, 1)}), m.Parameter({8})});
       }},
      {"RMSNormScaledTwice", "Pow ReduceMean Add Sqrt Div Mul Mul",
       [](M& m) {
         ValueId x = NormInput(m);
         ValueId y = m("Mul", {m("Div", {x, Deviation(m, x)}), m.Scalar(2)});
         return m("Mul", {y, m.Parameter({8})});
       }},
      {"RMSNormWeightPerRow", "Pow ReduceMean Add Sqrt Div Mul",
       [](M& m) {
         ValueId x = NormInput(m);
         return m("Mul", {m("Div", {x, Deviation(m, x)}), m.Parameter({3, 8})});
       }},
      {"RMSNormOfAnother", "Pow ReduceMean Add Sqrt Div Mul",
       [](M& m) {
         ValueId x = NormInput(m);
         return m("Mul", {m("Div", {NormInput(m), Deviation(m, x)}), m.Parameter({8})});
       }},
      {"RMSNormCubes", "Pow ReduceMean Add Sqrt Div Mul",
       [](M& m) {
         ValueId x = NormInput(m);
         ValueId mean = Mean(m, m("Pow", {x, m.Scalar(4)}), 2);
         ValueId root = m("Sqrt", {m("Add", {mean, m.Scalar(1e-5)})});
         return m("Mul", {m("Div", {x, root}), m.Parameter({8})});
       }},
      {"RMSNormDeviationUsedElsewhere", "Pow ReduceMean Add Sqrt Div Mul Mul",
       [](M& m) {
         ValueId x = NormInput(m), d = Deviation(m, x);
         return m("Mul", {m("Mul", {m("Div", {x, d}), m.Parameter({8})}), d});
       }},

      {"AttentionSoftmaxOverQueries", "Transpose MatMul Mul Softmax MatMul",
       [](M& m) {
         return m("MatMul", {Softmax(m, ScaledProduct(m), 2), Heads(m)});
       }},
      {"AttentionScoresUsedElsewhere", "Transpose MatMul Mul ReduceSum Softmax MatMul Add",
       [](M& m) {
         ValueId scores = ScaledProduct(m);
         ValueId sum = m("ReduceSum", {scores}, {{"axes", Ints{3}}, {"keepdims", int64_t{1}}});
         return m("Add", {Attend(m, scores), sum});
       }},
      {"AttentionProbabilitiesUsedElsewhere", "Transpose MatMul Softmax ReduceMax MatMul Add",
       [](M& m) {
         ValueId p = Softmax(m, Product(m));
         ValueId top = m("ReduceMax", {p}, {{"axes", Ints{3}}, {"keepdims", int64_t{1}}});
         return m("Add", {m("MatMul", {p, Heads(m)}), top});
       }},
      {"AttentionDropout", "Transpose MatMul Softmax Dropout MatMul",
       [](M& m) {
         ValueId p = m("Dropout", {Softmax(m, Product(m))}, {{"ratio", 0.25}});
         return m("MatMul", {p, Heads(m)});
       }},
      {"AttentionScaleOfHeads", "Transpose MatMul Mul Softmax MatMul",
       [](M& m) {
         return Attend(m, m("Mul", {Product(m), m.Parameter({kHeads, 1, 1})}));
       }},
      {"AttentionBroadcastBias", "Transpose MatMul Add Softmax MatMul",
       [](M& m) {
         ValueId q = m.Activation({1, kHeads, kLength, kWidth});
         ValueId k = SwapLast(m, m.Activation({1, kHeads, kLength, kWidth}));
         ValueId v = m.Activation({1, kHeads, kLength, kWidth});
         ValueId bias = m.Input({kBatch, 1, 1, kLength});
         return m("MatMul", {Softmax(m, m("Add", {m("MatMul", {q, k}), bias})), v});
       }},
      {"AttentionOneValueForAllHeads", "Transpose MatMul Softmax MatMul",
       [](M& m) {
         ValueId v = m.Activation({kBatch, 1, kLength, kWidth});
         return m("MatMul", {Softmax(m, Product(m)), v});
       }},
      {"AttentionWhereOfAnInput", "Transpose MatMul Mul Greater Where Softmax MatMul",
       [](M& m) {
         ValueId scores = ScaledProduct(m);
         ValueId kept = m("Greater", {m.Input({kBatch, 1, 1, kLength}), m.Scalar(0)});
         return Attend(m, m("Where", {kept, scores, m.Scalar(-1e9)}));
       }},
      {"AttentionWhereNotLow", "Transpose MatMul Mul Where Softmax MatMul",
       [](M& m) {
         ValueId kept = PaddingCondition(m, {1, 1, 0, 1, 0});
         return Attend(m, m("Where", {kept, ScaledProduct(m), m.Scalar(-3)}));
       }},
      {"AttentionNothingKept", "Transpose MatMul Mul Where Softmax MatMul",
       [](M& m) {
         ValueId kept = PaddingCondition(m, {0, 0, 0, 0, 0});
         return Attend(m, m("Where", {kept, ScaledProduct(m), m.Scalar(-1e9)}));
       }},
      {"AttentionNaNGuardOfABias", "Transpose MatMul Mul Add Softmax IsNaN Where MatMul",
       [](M& m) {
         ValueId scores = m("Add", {ScaledProduct(m), m.Input({kBatch, 1, 1, kLength})});
         return m("MatMul", {GuardNaN(m, Softmax(m, scores)), Heads(m)});
       }},
      {"GateOfRankTwo", "Linear Softmax Linear",
       [](M& m) {
         ValueId gate = m("MatMul", {m.Activation({3, 4}), m.Parameter({4, 5})});
         return m("MatMul", {Softmax(m, gate), m.Parameter({5, 2})});
       }},

      {"ProductOfActivations", "MatMul",
       [](M& m) {
         return m("MatMul", {Rows(m), m.Activation({4, 5})});
       }},
      {"ProductWithBatchedWeight", "MatMul",
       [](M& m) {
         return m("MatMul", {Rows(m), m.Parameter({2, 4, 5})});
       }},
      {"ProductWithParameterFirst", "MatMul",
       [](M& m) {
         return m("MatMul", {m.Parameter({6, 3}), Rows(m)});
       }},
  };
  return patterns;
}

}  // namespace

std::string PatternModel::Name(std::string_view prefix) {
  return std::string(prefix) + "." + std::to_string(graph_.values.size());
}

std::vector<double> PatternModel::Random(const Shape& shape) {
  std::normal_distribution<double> normal;
  std::vector<double> numbers(static_cast<size_t>(ElementCount(shape)));
  for (double& number : numbers) number = normal(rng_);
  return numbers;
}

ValueId PatternModel::Input(Shape shape) {
  return graph_.AddValue(Name("input"), {DType::kF32, std::move(shape)}, ValueKind::kInput);
}

ValueId PatternModel::Parameter(Shape shape) {
  auto data = std::make_shared<const HostTensor>(MakeTensor(DType::kF32, shape, Random(shape)));
  return graph_.AddValue(Name("parameter"), data->type(), ValueKind::kParameter, data);
}

ValueId PatternModel::Constant(Shape shape, std::span<const double> numbers, DType dtype) {
  auto data = std::make_shared<const HostTensor>(MakeTensor(dtype, std::move(shape), numbers));
  return graph_.AddValue(Name("constant"), data->type(), ValueKind::kConstant, data);
}

ValueId PatternModel::Scalar(double number) { return Constant({}, std::vector<double>{number}); }

ValueId PatternModel::Activation(Shape shape) {
  ValueId input = Input(shape);
  return (*this)("Sub", {input, Parameter(std::move(shape))});
}

ValueId PatternModel::CausalMask(int64_t size, double low, DType dtype) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) numbers.push_back(j <= i ? 0 : low);
  }
  return Constant({1, 1, size, size}, numbers, dtype);
}

ValueId PatternModel::operator()(std::string_view op, std::vector<ValueId> operands,
                                 Attributes attributes) {
  return AddOp(graph_, op, std::move(attributes), std::move(operands), Name(op)).front();
}

Graph PatternModel::Finish(std::vector<ValueId> values) {
  std::optional<ValueId> loss;
  for (ValueId value : values) {
    Shape whole = shape(value);
    Ints axes;
    for (size_t d = 0; d < whole.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    ValueId weighted = (*this)("Mul", {value, Constant(whole, Random(whole))});
    ValueId sum = (*this)("ReduceSum", {weighted}, {{"axes", axes}, {"keepdims", int64_t{0}}});
    loss = loss ? (*this)("Add", {*loss, sum}) : sum;
  }
  graph_.outputs = {*loss};
  return std::move(graph_);
}

std::string PatternOps(const Graph& graph) {
  std::string ops;
  for (size_t n = 0; n + 2 < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "Sub") continue;
    ops += ops.empty() ? "" : " ";
    ops += graph.nodes[n].op;
  }
  return ops;
}

std::span<const FusePattern> AllFusePatterns() { return Positive(); }
std::span<const FusePattern> AllNearPatterns() { return Negative(); }

}  // namespace heddle
