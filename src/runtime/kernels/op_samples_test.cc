#include "runtime/kernels/op_samples.h"

#include <algorithm>
#include <string>

#include "ops/op.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

int64_t Between(SampleRng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}
bool Coin(SampleRng& rng) { return (rng() & 1) != 0; }
int64_t Size(SampleRng& rng) { return Between(rng, 1, 7); }

Shape Sizes(SampleRng& rng, int64_t rank) {
  Shape shape;
  for (int64_t d = 0; d < rank; ++d) shape.push_back(Size(rng));
  return shape;
}

OperandSample F(Shape shape, Fill fill = Fill::kNormal) {
  return {{DType::kF32, std::move(shape)}, fill, 0};
}
OperandSample I(Shape shape, Fill fill, int64_t bound) {
  return {{DType::kI64, std::move(shape)}, fill, bound};
}
OperandSample B(Shape shape) { return {{DType::kBool, std::move(shape)}, Fill::kBool, 0}; }

// A shape that broadcasts to `full`: leading dimensions dropped, others set to 1 at random.
Shape Broadcastable(SampleRng& rng, const Shape& full) {
  size_t drop = rng() % (full.size() + 1);
  Shape shape(full.begin() + static_cast<std::ptrdiff_t>(drop), full.end());
  for (int64_t& size : shape) {
    if (rng() % 4 == 0) size = 1;
  }
  return shape;
}

template <Fill fill>
OpSample UnarySample(SampleRng& rng) {
  return {{}, {F(Sizes(rng, Between(rng, 0, 4)), fill)}};
}
OpSample IntUnary(SampleRng& rng) { return {{}, {I(Sizes(rng, 2), Fill::kSignedIndex, 100)}}; }
OpSample BoolUnary(SampleRng& rng) { return {{}, {B(Sizes(rng, 3))}}; }

template <Fill fill>
OpSample BinarySample(SampleRng& rng) {
  Shape full = Sizes(rng, Between(rng, 1, 4));
  OpSample sample{{}, {F(full, fill), F(Broadcastable(rng, full), fill)}};
  if (Coin(rng)) std::swap(sample.operands[0], sample.operands[1]);
  return sample;
}
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

template <class T>
OpSample With(OpSample sample, std::string name, T value) {
  sample.attributes[std::move(name)] = std::move(value);
  return sample;
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
OpSample AlongAxis(SampleRng& rng, Fill fill = Fill::kNormal) {
  Shape x = Sizes(rng, Between(rng, 1, 4));
  int64_t axis = Between(rng, 0, static_cast<int64_t>(x.size()) - 1);
  return {{{"axis", axis}}, {F(x, fill)}};
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

OpSample ReduceSample(SampleRng& rng, Fill fill) {
  Shape x = Sizes(rng, Between(rng, 0, 4));
  Ints axes;
  for (size_t d = 0; d < x.size(); ++d) {
    if (Coin(rng)) axes.push_back(static_cast<int64_t>(d));
  }
  return {{{"axes", axes}, {"keepdims", int64_t{Coin(rng)}}}, {F(x, fill)}};
}
OpSample ReduceLinear(SampleRng& rng) { return ReduceSample(rng, Fill::kNormal); }
OpSample ReduceExtreme(SampleRng& rng) { return ReduceSample(rng, Fill::kDistinct); }
OpSample ReduceDetached(SampleRng& rng) {
  return With(ReduceSample(rng, Fill::kDistinct), "detached", int64_t{1});
}
OpSample ReduceProdSample(SampleRng& rng) { return ReduceSample(rng, Fill::kPositive); }
OpSample ArgSample(SampleRng& rng) {
  return With(AlongAxis(rng, Fill::kDistinct), "keepdims", int64_t{Coin(rng)});
}
OpSample TopKSample(SampleRng& rng) {
  OpSample sample = AlongAxis(rng, Fill::kDistinct);
  int64_t axis = std::get<int64_t>(sample.attributes.at("axis"));
  int64_t size = sample.operands[0].type.shape[static_cast<size_t>(axis)];
  sample.attributes["k"] = Between(rng, 1, size);
  sample.attributes["largest"] = int64_t{Coin(rng)};
  return sample;
}
OpSample CumSumSample(SampleRng& rng) {
  return With(With(AlongAxis(rng), "exclusive", int64_t{Coin(rng)}), "reverse", int64_t{Coin(rng)});
}

OpSample ReshapeSample(SampleRng& rng) {
  int64_t a = Size(rng), b = Size(rng), c = Size(rng), d = Size(rng);
  switch (rng() % 5) {
    case 0:
      return {{{"shape", Ints{a * b, c, d}}}, {F({a, b, c * d})}};
    case 1:
      return {{{"shape", Ints{a, b, 1, c * d}}}, {F({a * b, c, d})}};
    case 2:
      return {{{"shape", Ints{a * b * c * d}}}, {F({a, 1, b, c, d})}};
    case 3:
      return {{{"shape", Ints{4 * a, 6}}}, {F({6, 4 * a})}};
    default:
      return {{{"shape", Ints{a, b * c, d}}}, {F({a * b, c * d})}};
  }
}
OpSample TransposeSample(SampleRng& rng) {
  Shape x = Sizes(rng, Between(rng, 1, 4));
  Ints perm(x.size());
  for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
  std::shuffle(perm.begin(), perm.end(), rng);
  return {{{"perm", perm}}, {F(x)}};
}
OpSample ExpandSample(SampleRng& rng) {
  Shape full = Sizes(rng, Between(rng, 1, 4));
  return {{{"shape", full}}, {F(Broadcastable(rng, full))}};
}
OpSample TileSample(SampleRng& rng) {
  Shape x = Sizes(rng, 3);
  return {{{"repeats", Sizes(rng, 3)}}, {F(x)}};
}
OpSample ConcatSample(SampleRng& rng) {
  Shape x = Sizes(rng, 3);
  int64_t axis = Between(rng, 0, 2), unit = Between(rng, 1, 4);
  OpSample sample{{{"axis", axis}}, {}};
  for (int64_t o = Between(rng, 1, 3); o > 0; --o) {
    x[static_cast<size_t>(axis)] = unit * Between(rng, 1, 3);
    sample.operands.push_back(F(x));
  }
  return sample;
}
OpSample SplitSample(SampleRng& rng) {
  Shape x = Sizes(rng, 3);
  int64_t axis = Between(rng, 0, 2), unit = Between(rng, 1, 4), total = 0;
  Ints sizes;
  for (int64_t o = Between(rng, 1, 3); o > 0; --o) {
    sizes.push_back(unit * Between(rng, 1, 3));
    total += sizes.back();
  }
  x[static_cast<size_t>(axis)] = total;
  return {{{"axis", axis}, {"sizes", sizes}}, {F(x)}};
}
OpSample SliceSample(SampleRng& rng) {
  int64_t unit = Between(rng, 1, 4), before = Between(rng, 0, 2), taken = Between(rng, 1, 2),
          after = Between(rng, 0, 2);
  Shape x = {Size(rng), unit * (before + taken + after), 7};
  OpSample sample{{{"axes", Ints{1}},
                   {"starts", Ints{unit * before}},
                   {"ends", Ints{unit * (before + taken)}},
                   {"steps", Ints{1}}},
                  {F(x)}};
  if (rng() % 3 == 0) {
    bool back = Coin(rng);
    sample.attributes = {{"axes", Ints{2}},
                         {"starts", Ints{back ? 6 : 1}},
                         {"ends", Ints{back ? -1 : 6}},
                         {"steps", Ints{back ? -2 : 3}}};
  }
  return sample;
}
OpSample PadSample(SampleRng& rng) {
  static constexpr std::string_view kModes[] = {"constant", "reflect", "edge"};
  std::string mode(kModes[rng() % 3]);
  // ATen reflects and repeats the edges of the last dimensions only.
  Ints pads = {0, 0, Between(rng, 0, 2), 0, 0, Between(rng, 0, 2)};
  if (mode == "constant" && Coin(rng)) pads[1] = 1;
  return {{{"pads", pads}, {"mode", mode}, {"value", mode == "constant" ? 0.5 : 0.0}},
          {F({Size(rng), Size(rng), Between(rng, 3, 6)})}};
}
OpSample TriluSample(SampleRng& rng) {
  return {{{"upper", int64_t{Coin(rng)}}, {"k", Between(rng, -2, 2)}},
          {F(Sizes(rng, Between(rng, 2, 3)))}};
}

OpSample GatherSample(SampleRng& rng) {
  OpSample sample = AlongAxis(rng);
  int64_t axis = std::get<int64_t>(sample.attributes.at("axis"));
  int64_t rows = sample.operands[0].type.shape[static_cast<size_t>(axis)];
  sample.operands.push_back(I(Sizes(rng, Between(rng, 0, 2)), Fill::kSignedIndex, rows));
  return sample;
}
OpSample GatherElementsSample(SampleRng& rng) {
  OpSample sample = AlongAxis(rng);
  size_t axis = static_cast<size_t>(std::get<int64_t>(sample.attributes.at("axis")));
  Shape index = sample.operands[0].type.shape;
  int64_t rows = index[axis];
  index[axis] = Size(rng);
  for (int64_t& size : index) {
    if (&size != &index[axis] && rng() % 4 == 0) size = Between(rng, 1, size);
  }
  sample.operands.push_back(I(index, Fill::kSignedIndex, rows));
  return sample;
}
OpSample GatherNDSample(SampleRng& rng) {
  int64_t batch = Between(rng, 0, 1), b = Size(rng), v = Size(rng), depth = Between(rng, 1, 2);
  Shape data = batch ? Shape{b, v, v, Size(rng)} : Shape{v, v, Size(rng)};
  Shape index = batch ? Shape{b, Size(rng), depth} : Shape{Size(rng), Size(rng), depth};
  return {{{"batch_dims", batch}}, {F(data), I(index, Fill::kIndex, v)}};
}
OpSample ScatterNDSample(SampleRng& rng) {
  int64_t v = Between(rng, 2, 7), n = Between(rng, 1, v), r = Size(rng);
  return {{{"reduction", std::string(Coin(rng) ? "none" : "add")}},
          {F({v, r}), I({n, 1}, Fill::kUnique, v), F({n, r})}};
}
OpSample ScatterElementsSample(SampleRng& rng) {
  int64_t v = Between(rng, 2, 7), n = Between(rng, 1, v), r = Size(rng);
  return {{{"axis", int64_t{0}}, {"reduction", std::string(Coin(rng) ? "none" : "add")}},
          {F({v, r}), I({n, r}, Fill::kUnique, v), F({n, r})}};
}
OpSample OneHotSample(SampleRng& rng) {
  int64_t depth = Size(rng);
  Shape index = Sizes(rng, Between(rng, 0, 2));
  return {{{"depth", depth},
           {"axis", Between(rng, 0, static_cast<int64_t>(index.size()))},
           {"on", 2.0},
           {"off", -1.0},
           {"to", std::string("f32")}},
          {I(index, Fill::kIndex, depth)}};
}

OpSample LossSample(SampleRng& rng) {
  static constexpr std::string_view kReductions[] = {"mean", "sum", "none"};
  std::string reduction(kReductions[rng() % 3]);
  int64_t n = Size(rng), c = Size(rng);
  Shape logits = {n, c}, labels = {n};
  if (Coin(rng)) {
    logits.push_back(Size(rng));
    labels.push_back(logits.back());
  }
  OpSample sample{{{"ignore_index", int64_t{-100}}, {"reduction", reduction}},
                  {F(logits), I(labels, Fill::kLabel, c)}};
  if (reduction == "mean") sample.operands.push_back(F({}, Fill::kPositive));
  return sample;
}
OpSample LabelCountSample(SampleRng& rng) {
  return {{{"ignore_index", int64_t{-100}}}, {I(Sizes(rng, Between(rng, 1, 2)), Fill::kLabel, 9)}};
}

OpSample DropoutSample(SampleRng& rng) {
  return With(UnarySample<Fill::kNormal>(rng), "ratio", 0.3);
}
OpSample UniformSample(SampleRng& rng) {
  return With(With(UnarySample<Fill::kNormal>(rng), "low", -1.0), "high", 2.0);
}
OpSample RandomNormalSample(SampleRng& rng) {
  return With(With(UnarySample<Fill::kNormal>(rng), "mean", 1.0), "scale", 2.0);
}

constexpr auto kAny = UnarySample<Fill::kNormal>;
constexpr auto kPositive = UnarySample<Fill::kPositive>;
constexpr auto kUnit = UnarySample<Fill::kUnit>;
constexpr auto kTwo = BinarySample<Fill::kNormal>;
constexpr auto kTwoDistinct = BinarySample<Fill::kDistinct>;

const std::vector<OpSampler>& Samplers() {
  static const std::vector<OpSampler> samplers = {
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
      {"ReduceSum", ReduceLinear},
      {"ReduceMean", ReduceLinear},
      {"ReduceMax", ReduceExtreme},
      {"ReduceMax", ReduceDetached},
      {"ReduceMin", ReduceExtreme},
      {"ReduceProd", ReduceProdSample},
      {"ArgMax", ArgSample},
      {"ArgMin", ArgSample},
      {"TopK", TopKSample},
      {"CumSum", CumSumSample},
      {"Reshape", ReshapeSample},
      {"Transpose", TransposeSample},
      {"Expand", ExpandSample},
      {"Tile", TileSample},
      {"Concat", ConcatSample},
      {"Split", SplitSample},
      {"Slice", SliceSample},
      {"Pad", PadSample},
      {"Trilu", TriluSample},
      {"Gather", GatherSample},
      {"GatherElements", GatherElementsSample},
      {"GatherND", GatherNDSample},
      {"ScatterND", ScatterNDSample},
      {"ScatterElements", ScatterElementsSample},
      {"OneHot", OneHotSample},
      {"CrossEntropy", LossSample},
      {"NllLoss", LossSample},
      {"LabelCount", LabelCountSample},
      {"Dropout", DropoutSample},
      {"RandomUniformLike", UniformSample},
      {"RandomNormalLike", RandomNormalSample},
      {"Bernoulli", kUnit},
  };
  return samplers;
}

}  // namespace

std::span<const OpSampler> AllSamplers() { return Samplers(); }

}  // namespace heddle
