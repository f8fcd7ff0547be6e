// The models that fusion must find, in every form that exporters write.
#include "frontend/fuse_pattern_parts.h"

namespace heddle {
namespace patterns {

const std::vector<FusePattern>& FusingPatterns() {
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

}  // namespace patterns

std::span<const FusePattern> AllFusePatterns() { return patterns::FusingPatterns(); }

}  // namespace heddle
