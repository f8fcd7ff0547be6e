// Normalisations, softmax and fused attention: rows are parallel, what is normalised over is whole.
#include <string>

#include "base/error.h"
#include "ops/expansion.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

// Flops per element, counted as the primitives each consists of.
constexpr double kNormFlops = 8;
constexpr double kSoftmaxFlops = 5;
constexpr double kStatisticsBytes = 8;  // mean and reciprocal deviation per row, in fp32

Rule FinishNorm(Rule rule, std::vector<int> row) {
  SetWork(rule, kNormFlops, FactorsOf(rule.results[0]));
  rule.keep.operands = {0};
  rule.keep.extra = {{kStatisticsBytes, std::move(row)}};
  return rule;
}

// A weight may be broadcast over what is normalised, but not the other way round.
void RequireShapeOf(const Rule& rule, const OpContext& c) {
  if (GlobalShape(rule, rule.results[0]) != c.shape()) {
    ThrowInput("operand 1 {} does not fit what is normalised of operand 0 {}", ToString(c.shape(1)),
               ToString(c.shape()));
  }
}

Rule LayerNormRule(const OpContext& c) {
  RequireFloats(c);
  SpecArgs args{.lengths = {{"c", c.rank() - AxisAttr(c, c.rank(), -1)}}, .sizes = {}};
  Rule rule = Spec("a* c*!, c*, c* -> a* c*", c, args);
  RequireShapeOf(rule, c);
  return FinishNorm(rule, Factors(rule, {"a*"}));
}

Rule RMSNormRule(const OpContext& c) {
  RequireFloats(c);
  SpecArgs args{.lengths = {{"c", c.rank() - AxisAttr(c, c.rank(), -1)}}, .sizes = {}};
  Rule rule = Spec("a* c*!, c* -> a* c*", c, args);
  RequireShapeOf(rule, c);
  return FinishNorm(rule, Factors(rule, {"a*"}));
}

Rule BatchNormRule(const OpContext& c) {
  RequireFloats(c);
  Rule rule = Spec("n& c s*!, c, c -> n c s*", c);
  return FinishNorm(rule, Factors(rule, {"c"}));
}

// Statistics over a split batch: two sums per channel cross the ranks.
Graph BatchNormExpansion(const OpContext& c) {
  Primitives p(c);
  DType dtype =
      SizeOf(c.operands[0].dtype) < 4 ? DType::kF32 : c.operands[0].dtype;  // sums are wide
  auto cast = [&](ValueId x, DType to) {
    return p.type(x).dtype == to ? x : p("Cast", {x}, {{"to", std::string(Name(to))}});
  };
  std::vector<int64_t> axes = {0};
  Shape per_channel(c.shape().size(), 1);
  per_channel[1] = c.dim(0, 1);
  double count = static_cast<double>(c.dim(0, 0));
  for (int64_t d = 2; d < c.rank(); ++d) {
    axes.push_back(d);
    count *= static_cast<double>(c.dim(0, d));
  }
  ValueId fraction = p.Scalar(1.0 / count, dtype);
  auto mean = [&](ValueId x) {
    return p("Mul", {p("ReduceSum", {x}, {{"axes", axes}}), fraction});
  };
  ValueId x = cast(p.operand(0), dtype);
  ValueId centred = p("Sub", {x, mean(x)});
  ValueId variance = mean(p("Mul", {centred, centred}));
  ValueId epsilon = p.Scalar(FloatAttr(c.attributes, "epsilon", 1e-5), dtype);
  ValueId scale = p("Reciprocal", {p("Sqrt", {p("Add", {variance, epsilon})})});
  ValueId weight = cast(p("Reshape", {p.operand(1)}, {{"shape", per_channel}}), dtype);
  ValueId bias = cast(p("Reshape", {p.operand(2)}, {{"shape", per_channel}}), dtype);
  ValueId result = p("Add", {p("Mul", {p("Mul", {centred, scale}), weight}), bias});
  return p.Finish({cast(result, c.operands[0].dtype)});
}

Rule BatchNormInferenceRule(const OpContext& c) {
  RequireFloats(c);
  Rule rule = Spec("n c s*, c, c, c, c -> n c s*", c);
  SetWork(rule, 2, FactorsOf(rule.results[0]));
  rule.differentiable = {0, 1, 2};
  rule.keep.operands = {0};
  return rule;
}

Rule InstanceNormRule(const OpContext& c) {
  RequireFloats(c);
  Rule rule = Spec("n c s*!, c, c -> n c s*", c);
  return FinishNorm(rule, Factors(rule, {"n", "c"}));
}

Rule GroupNormRule(const OpContext& c) {
  RequireFloats(c);
  int64_t groups = IntAttr(c.attributes, "groups");
  if (groups < 1) ThrowInput("groups={}", groups);
  Rule rule = Spec("n (g c!) s*!, (g c), (g c) -> n (g c) s*", c,
                   {.lengths = {}, .sizes = {{"g", groups}}});
  return FinishNorm(rule, Factors(rule, {"n", "g"}));
}

Rule SoftmaxRule(const OpContext& c) {
  RequireFloats(c);
  Rule rule =
      Spec("a* c! z* -> a* c z*", c, {.lengths = {{"a", AxisAttr(c, c.rank(), -1)}}, .sizes = {}});
  SetWork(rule, kSoftmaxFlops, AllFactors(rule));
  rule.keep.results = {0};
  return rule;
}

// Where the bias has size 1 it broadcasts.
std::string BiasSpec(const OpContext& c) {
  static constexpr std::string_view kDims[] = {"(h g)", "i", "j"};
  int64_t rank = c.rank(3);
  std::string spec = rank > 3 ? "b*" : "";
  for (int64_t d = std::max<int64_t>(0, rank - 3); d < rank; ++d) {
    spec += ' ';
    spec += c.dim(3, d) == 1 ? "1" : kDims[static_cast<size_t>(d - rank + 3)];
  }
  return spec;
}

Rule AttentionRule(const OpContext& c) {
  RequireFloats(c);
  RequireSameTypes({c.attributes, c.operands.first(3)});  // the bias may be wider
  for (size_t o = 0; o < 3; ++o) {
    if (c.rank(o) < 3)
      ThrowInput("operand {} {} needs heads, positions and width", o, ToString(c.shape(o)));
  }
  FloatAttr(c.attributes, "scale");  // there is no default worth guessing
  std::string spec = "b* (h g) i d!, b* h j! d, b* h j e";
  if (c.operands.size() == 4) spec += ", " + BiasSpec(c);
  Rule rule = Spec(spec + " -> b* (h g) i e", c);
  auto work = [&](double flops, std::string_view width, bool contraction) {
    return WorkTerm{flops, Factors(rule, {"b*", "h", "g", "i", "j", width}), contraction, {}};
  };
  rule.work = {work(2, "d", true), work(2, "e", true), work(kSoftmaxFlops, "", false)};
  rule.work[0].gradients = {{0}, {1}};        // of the scores: to q and to k
  rule.work[1].gradients = {{0, 1, 3}, {2}};  // of the product with v: to the scores and to v
  rule.work[2].gradients = {{0, 1, 3}};
  rule.keep.operands = {0, 1, 2};
  if (c.operands.size() == 4) rule.keep.operands.push_back(3);
  rule.keep.results = {0};
  rule.keep.extra = {{4, Factors(rule, {"b*", "h", "g", "i"})}};  // log of each row's sum, in fp32
  return rule;
}

}  // namespace

std::vector<OpDef> NormalisationOps() {
  OpTraits norm = {.statistics = NormStatistics::kSample, .gain = 1, .bias = 2};
  OpTraits rms_norm = {.statistics = NormStatistics::kSample, .composite = true, .gain = 1};
  OpTraits batch_norm = {.statistics = NormStatistics::kBatch, .gain = 1, .bias = 2};
  OpTraits given = {.statistics = NormStatistics::kGiven, .gain = 1, .bias = 2};
  OpTraits log_softmax = {.cross_entropy = CrossEntropyPart::kLogProbabilities};
  return {
      {"LayerNorm", 2, 3, {"axis", "epsilon"}, LayerNormRule, norm},
      {"RMSNorm", 1, 2, {"axis", "epsilon"}, RMSNormRule, rms_norm},
      {"BatchNorm", 3, 3, {"epsilon"}, BatchNormRule, batch_norm, BatchNormExpansion},
      {"BatchNormInference", 5, 5, {"epsilon"}, BatchNormInferenceRule, given},
      {"InstanceNorm", 3, 3, {"epsilon"}, InstanceNormRule, norm},
      {"GroupNorm", 3, 3, {"groups", "epsilon"}, GroupNormRule, norm},
      {"Softmax", 1, 1, {"axis"}, SoftmaxRule},
      {"LogSoftmax", 1, 1, {"axis"}, SoftmaxRule, log_softmax},
      {"Attention", 3, 4, {"scale", "causal"}, AttentionRule, {.kind = OpKind::kAttention}},
  };
}

}  // namespace heddle
