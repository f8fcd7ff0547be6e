// Models that resemble a pattern but must not be fused.
#include "frontend/fuse_pattern_parts.h"

namespace heddle {
namespace patterns {

const std::vector<FusePattern>& NearPatterns() {
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

}  // namespace patterns

std::span<const FusePattern> AllNearPatterns() { return patterns::NearPatterns(); }

}  // namespace heddle
