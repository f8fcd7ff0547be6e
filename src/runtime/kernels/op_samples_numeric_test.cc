// Samplers of ops that compute: element by element, contractions, windows, normalisations, attention.
#include <algorithm>
#include <string>

#include "ops/op.h"
#include "runtime/kernels/op_sample_draw.h"

namespace heddle::samples {
namespace {

OpSample IntUnary(SampleRng& rng) { return {{}, {I(Sizes(rng, 2), Fill::kSignedIndex, 100)}}; }
OpSample BoolUnary(SampleRng& rng) { return {{}, {B(Sizes(rng, 3))}}; }

OpSample BoolBinary(SampleRng& rng) {
  Shape full = Sizes(rng, 3);
  return {{}, {B(full), B(Broadcastable(rng, full))}};
}
OpSample IntBinary(SampleRng& rng) {
  Shape full = Sizes(rng, 2);
  return {{}, {I(full, Fill::kIndex, 9), I(Broadcastable(rng, full), Fill::kIndex, 9)}};
}
OpSample IntDivision(SampleRng& rng) {
  OpSample sample = IntBinary(rng);
  sample.operands[0].fill = Fill::kSignedIndex;
  sample.operands[1] = {{DType::kI64, {}}, Fill::kSignedIndex, 0};
  sample.operands[1].bound = -3;  // a negative bound means the constant itself
  return sample;
}
OpSample ModFloat(SampleRng& rng) {
  OpSample sample = BinarySample<Fill::kPositive>(rng);
  sample.attributes = {{"fmod", int64_t{1}}};
  return sample;
}
OpSample PowSample(SampleRng& rng) { return BinarySample<Fill::kPositive>(rng); }

OpSample WhereSample(SampleRng& rng) {
  Shape full = Sizes(rng, 3);
  return {{}, {B(Broadcastable(rng, full)), F(full), F(Broadcastable(rng, full))}};
}

OpSample MatMulSample(SampleRng& rng) {
  Shape batch = Sizes(rng, Between(rng, 0, 2));
  int64_t i = Size(rng), k = Size(rng), j = Size(rng);
  Shape a = Coin(rng) ? batch : Broadcastable(rng, batch), b = batch;
  a.insert(a.end(), {i, k});
  b.insert(b.end(), {k, j});
  return {{}, {F(a), F(b)}};
}
OpSample LinearSample(SampleRng& rng) {
  bool transposed = Coin(rng);
  Shape x = Sizes(rng, Between(rng, 1, 3));
  int64_t k = x.back(), j = Size(rng);
  OpSample sample{{{"transpose_weight", int64_t{transposed}}},
                  {F(x), F(transposed ? Shape{j, k} : Shape{k, j})}};
  if (Coin(rng)) sample.operands.push_back(F({j}));
  return sample;
}
// Features in pieces with a common divisor, which short shards do not divide.
OpSample PiecesSample(SampleRng& rng) {
  int64_t j = Size(rng), total = 0;
  Ints pieces;
  for (int64_t p = Between(rng, 2, 3); p > 0; --p) pieces.push_back(j * Between(rng, 1, 3));
  for (int64_t piece : pieces) total += piece;
  bool transposed = Coin(rng);
  Shape x = Sizes(rng, Between(rng, 1, 3));
  OpSample sample{{{"transpose_weight", int64_t{transposed}}, {"pieces", pieces}},
                  {F(x), F(transposed ? Shape{total, x.back()} : Shape{x.back(), total})}};
  if (Coin(rng)) sample.operands.push_back(F({total}));
  return sample;
}
OpSample EinsumSample(SampleRng& rng) {
  int64_t b = Size(rng), t = Size(rng), e = Size(rng), c = Size(rng), d = Size(rng);
  switch (rng() % 4) {
    case 0:
      return {{{"equation", "btec,btd->ebcd"}}, {F({b, t, e, c}), F({b, t, d})}};
    case 1:
      return {{{"equation", "ebcd,edf->ebcf"}}, {F({e, b, c, d}), F({e, d, t})}};
    case 2:
      return {{{"equation", "...ij,...jk->...ik"}}, {F({b, e, t, c}), F({b, e, c, d})}};
    default:
      return {{{"equation", "btec,ebcd->btd"}}, {F({b, t, e, c}), F({e, b, c, d})}};
  }
}

OpSample ConvSample(SampleRng& rng) {
  int64_t spatial = Between(rng, 1, 2), group = Between(rng, 1, 3);
  int64_t c = Between(rng, 1, 4), o = Between(rng, 1, 4);
  Shape x = {Size(rng), group * c}, w = {group * o, c};
  Ints strides, dilations, pads;
  for (int64_t s = 0; s < spatial; ++s) {
    x.push_back(Between(rng, 6, 9));
    w.push_back(Between(rng, 1, 3));
    strides.push_back(Between(rng, 1, 2));
    dilations.push_back(Between(rng, 1, 2));
  }
  for (int64_t s = 0; s < 2 * spatial; ++s) pads.push_back(Between(rng, 0, 2));
  OpSample sample{
      {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}},
      {F(x), F(w)}};
  if (Coin(rng)) sample.operands.push_back(F({group * o}));
  return sample;
}
OpSample ConvTransposeSample(SampleRng& rng) {
  int64_t group = Between(rng, 1, 3), c = Between(rng, 1, 3), o = Between(rng, 1, 4);
  OpSample sample{{{"strides", Ints{2, 1}},
                   {"pads", Ints{1, 0, 1, 0}},
                   {"group", group},
                   {"output_padding", Ints{Between(rng, 0, 1), 0}}},
                  {F({Size(rng), group * c, 5, 4}), F({group * c, o, 3, 2})}};
  if (Coin(rng)) sample.operands.push_back(F({group * o}));
  return sample;
}
OpSample PoolSample(SampleRng& rng) {
  return {{{"kernel", Ints{3, 2}},
           {"strides", Ints{Between(rng, 1, 2), 2}},
           {"pads", Ints{1, 0, Between(rng, 0, 1), 1}},
           {"ceil_mode", int64_t{Coin(rng)}}},
          {F({Size(rng), Size(rng), Between(rng, 5, 8), Between(rng, 5, 8)}, Fill::kDistinct)}};
}
OpSample AveragePoolSample(SampleRng& rng) {
  return With(PoolSample(rng), "count_include_pad", int64_t{Coin(rng)});
}
OpSample ResizeSample(SampleRng& rng) {
  return {{{"sizes", Ints{Between(rng, 2, 9), 6}},
           {"mode", std::string(Coin(rng) ? "nearest" : "linear")}},
          {F({Size(rng), Size(rng), 4, 3})}};
}

OpSample NormSample(SampleRng& rng, bool bias) {
  Shape x = Sizes(rng, Between(rng, 2, 4));
  x.back() = Between(rng, 2, 7);
  int64_t axis = static_cast<int64_t>(x.size()) - Between(rng, 1, 2);
  Shape c(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  OpSample sample{{{"axis", axis}, {"epsilon", 1e-3}}, {F(x), F(c)}};
  if (bias && Coin(rng)) sample.operands.push_back(F(c));
  return sample;
}
OpSample LayerNormSample(SampleRng& rng) { return NormSample(rng, true); }
OpSample RMSNormSample(SampleRng& rng) { return NormSample(rng, false); }
OpSample ChannelNorm(SampleRng& rng) {
  int64_t c = Size(rng);
  return {{{"epsilon", 1e-3}}, {F({Between(rng, 2, 7), c, Between(rng, 2, 4), 3}), F({c}), F({c})}};
}
OpSample BatchNormInferenceSample(SampleRng& rng) {
  OpSample sample = ChannelNorm(rng);
  sample.operands.push_back(sample.operands[1]);
  sample.operands.push_back(F(sample.operands[1].type.shape, Fill::kPositive));
  return sample;
}
OpSample GroupNormSample(SampleRng& rng) {
  int64_t g = Between(rng, 1, 5), c = Between(rng, 1, 3);
  return {{{"epsilon", 1e-3}, {"groups", g}},
          {F({Size(rng), g * c, 3, 2}), F({g * c}), F({g * c})}};
}
OpSample SoftmaxSample(SampleRng& rng) { return AlongAxis(rng); }
OpSample AttentionSample(SampleRng& rng) {
  Shape batch = Sizes(rng, Between(rng, 0, 1));
  int64_t h = Between(rng, 1, 4), g = Between(rng, 1, 3), i = Size(rng), j = Size(rng);
  int64_t d = Between(rng, 1, 4), e = Between(rng, 1, 4);
  auto with = [&](Ints tail) {
    Shape shape = batch;
    shape.insert(shape.end(), tail.begin(), tail.end());
    return shape;
  };
  bool causal = Coin(rng);
  OpSample sample{{{"scale", 0.7}, {"causal", int64_t{causal}}},
                  {F(with({h * g, i, d})), F(with({h, j, d})), F(with({h, j, e}))}};
  if (Coin(rng)) {
    Shape bias = with({Coin(rng) ? h * g : 1, Coin(rng) ? i : 1, j});
    if (!batch.empty() && Coin(rng)) bias[0] = 1;
    sample.operands.push_back(F(bias));
  }
  return sample;
}

constexpr auto kAny = UnarySample<Fill::kNormal>;
constexpr auto kPositive = UnarySample<Fill::kPositive>;
constexpr auto kUnit = UnarySample<Fill::kUnit>;
constexpr auto kTwo = BinarySample<Fill::kNormal>;
constexpr auto kTwoDistinct = BinarySample<Fill::kDistinct>;

}  // namespace

std::vector<OpSampler> NumericSamplers() {
  return {
      {"Identity", kAny},
      {"Neg", kAny},
      {"Abs", kAny},
      {"Exp", kAny},
      {"Log", kPositive},
      {"Sqrt", kPositive},
      {"Reciprocal", kPositive},
      {"Sin", kAny},
      {"Cos", kAny},
      {"Tan", kUnit},
      {"Asin", kUnit},
      {"Acos", kUnit},
      {"Atan", kAny},
      {"Sinh", kAny},
      {"Cosh", kAny},
      {"Asinh", kAny},
      {"Acosh",
       [](SampleRng& rng) -> OpSample {
         return {{}, {F(Sizes(rng, 2), Fill::kDistinct)}};  // distinct numbers start at 1
       }},
      {"Atanh", kUnit},
      {"Tanh", kAny},
      {"Sigmoid", kAny},
      {"Erf", kAny},
      {"Relu", kAny},
      {"Silu", kAny},
      {"Softplus", kAny},
      {"Softsign", kAny},
      {"Mish", kAny},
      {"HardSwish", kAny},
      {"Selu", kAny},
      {"Gelu",
       [](SampleRng& rng) {
         return With(kAny(rng), "approximate", std::string(Coin(rng) ? "none" : "tanh"));
       }},
      {"LeakyRelu", [](SampleRng& rng) { return With(kAny(rng), "alpha", 0.1); }},
      {"Elu", [](SampleRng& rng) { return With(kAny(rng), "alpha", 0.7); }},
      {"Celu", [](SampleRng& rng) { return With(kAny(rng), "alpha", 0.7); }},
      {"ThresholdedRelu", [](SampleRng& rng) { return With(kAny(rng), "alpha", 0.3); }},
      {"HardSigmoid", [](SampleRng& rng) { return With(kAny(rng), "alpha", 0.3); }},
      {"Clip", [](SampleRng& rng) { return With(With(kAny(rng), "min", -0.5), "max", 0.6); }},
      {"Clip", [](SampleRng& rng) { return With(kAny(rng), "max", 0.6); }},
      {"Floor", kAny},
      {"Ceil", kAny},
      {"Round", kAny},
      {"Sign", kAny},
      {"BitwiseNot", IntUnary},
      {"Add", kTwo},
      {"Sub", kTwo},
      {"Mul", kTwo},
      {"Div", BinarySample<Fill::kPositive>},
      {"Div", IntDivision},
      {"Pow", PowSample},
      {"Mod", IntDivision},
      {"Mod", ModFloat},
      {"Maximum", kTwoDistinct},
      {"Minimum", kTwoDistinct},
      {"PRelu", kTwo},
      {"Equal", IntBinary},
      {"Less", kTwo},
      {"LessOrEqual", kTwo},
      {"Greater", kTwo},
      {"GreaterOrEqual", kTwo},
      {"And", BoolBinary},
      {"Or", BoolBinary},
      {"Xor", BoolBinary},
      {"BitwiseAnd", IntBinary},
      {"BitwiseOr", IntBinary},
      {"BitwiseXor", IntBinary},
      {"Cast",
       [](SampleRng& rng) {
         return With(kAny(rng), "to", std::string(Coin(rng) ? "i64" : "f64"));
       }},
      {"Not", BoolUnary},
      {"IsNaN", kAny},
      {"IsInf", kAny},
      {"Where", WhereSample},
      {"MatMul", MatMulSample},
      {"Linear", LinearSample},
      {"Linear", PiecesSample},
      {"Einsum", EinsumSample},
      {"Conv", ConvSample},
      {"ConvTranspose", ConvTransposeSample},
      {"MaxPool", PoolSample},
      {"AveragePool", AveragePoolSample},
      {"Resize", ResizeSample},
      {"LayerNorm", LayerNormSample},
      {"RMSNorm", RMSNormSample},
      {"BatchNorm", ChannelNorm},
      {"BatchNormInference", BatchNormInferenceSample},
      {"InstanceNorm", ChannelNorm},
      {"GroupNorm", GroupNormSample},
      {"Softmax", SoftmaxSample},
      {"LogSoftmax", SoftmaxSample},
      {"Attention", AttentionSample},
  };
}

}  // namespace heddle::samples
