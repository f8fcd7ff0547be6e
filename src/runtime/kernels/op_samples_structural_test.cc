// Samplers of ops that reduce, move, look up or draw elements, and of losses.
#include <algorithm>
#include <string>

#include "ops/op.h"
#include "runtime/kernels/op_sample_draw.h"

namespace heddle::samples {
namespace {

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

}  // namespace

std::vector<OpSampler> StructuralSamplers() {
  return {
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
      {"Bernoulli", UnarySample<Fill::kUnit>},
  };
}

}  // namespace heddle::samples
