// Single kernels against values known otherwise.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ops/op.h"
#include "runtime/kernels/kernel_util.h"
#include "runtime/kernels/random.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

DType FromTorch(at::ScalarType dtype) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (ToTorch(info.dtype) == dtype) return info.dtype;
  }
  return DType::kF32;
}

// An op on whole tensors; random numbers of step `step`.
Tensors RunOp(const std::string& op, const Attributes& attributes, const Tensors& operands,
              uint64_t step = 0) {
  std::vector<TensorType> types;
  for (const at::Tensor& t : operands)
    types.push_back({FromTorch(t.scalar_type()), t.sizes().vec()});
  const Rule rule = MakeRule(op, attributes, types);
  const std::vector<Block> blocks = WholeBlocks(rule);
  return FindKernel(op)({attributes, rule, blocks, operands, {11, step, 7}});
}

void ExpectValues(const at::Tensor& t, const std::vector<double>& values) {
  const at::Tensor expected = at::tensor(values, at::kDouble).reshape(t.sizes());
  EXPECT_TRUE(at::allclose(t.to(at::kDouble), expected, 1e-6, 1e-6)) << t << expected;
}

at::Tensor Ramp(Shape shape) { return at::arange(ElementCount(shape), at::kDouble).reshape(shape); }

TEST(Random, TensorsAndScalarsAgree) {
  const uint64_t key = RandomKey({1, 2, 3}, 0);
  const at::Tensor indices =
      at::tensor(Ints{0, 1, 2, 1 << 20, int64_t{1} << 40, 123456789012345678});
  const at::Tensor uniform = RandomUniform(key, indices);
  for (int64_t i = 0; i < indices.numel(); ++i) {
    EXPECT_EQ(uniform[i].item<float>(), RandomUniform(key, indices[i].item<int64_t>()));
  }
  EXPECT_EQ(Mix(kGolden), 0xE220A8397B1DCDAFu);  // the first output of SplitMix64 seeded with 0
}

TEST(Random, KeysDifferInEveryWord) {
  const std::set<uint64_t> keys = {RandomKey({1, 2, 3}, 0), RandomKey({2, 2, 3}, 0),
                                   RandomKey({1, 3, 3}, 0), RandomKey({1, 2, 4}, 0),
                                   RandomKey({1, 2, 3}, 1), RandomKey({2, 1, 3}, 0)};
  EXPECT_EQ(keys.size(), 6u);
}

TEST(Random, MomentsAreRight) {
  const at::Tensor x = at::ones({200, 500});
  const at::Tensor normal = RunOp("RandomNormalLike", {{"mean", 1.0}, {"scale", 2.0}}, {x})[0];
  EXPECT_NEAR(normal.mean().item<double>(), 1, 0.03);
  EXPECT_NEAR(normal.std().item<double>(), 2, 0.03);
  const at::Tensor uniform = RunOp("RandomUniformLike", {{"low", 0.0}, {"high", 1.0}}, {x})[0];
  EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(uniform.var().item<double>(), 1.0 / 12, 0.002);
  const at::Tensor kept = RunOp("Dropout", {{"ratio", 0.25}}, {x})[0];
  EXPECT_NEAR(kept.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(kept.max().item<double>(), 4.0 / 3, 1e-6);
  EXPECT_FALSE(kept.equal(RunOp("Dropout", {{"ratio", 0.25}}, {x}, 1)[0]));
  EXPECT_TRUE(x.equal(RunOp("Dropout", {{"ratio", 0.0}}, {x})[0]));
}

TEST(Random, GlobalIndicesFollowProductsAndConcatenations) {
  Rule rule;
  rule.factors = {{"a", 2, FactorKind::kParallel}, {"b", 4, FactorKind::kParallel}};
  const std::vector<Block> blocks = {{0, 2}, {2, 4}};
  const Dims product = {Dim{{{0, 1}}}};
  ExpectValues(GlobalIndices(rule, product, blocks, at::kCPU), {2, 3, 6, 7});
  const Dims joined = {Dim{{{0}, {1}, {}}}};
  ExpectValues(GlobalIndices(rule, joined, blocks, at::kCPU), {0, 1, 4, 5, 6});
  const Dims both = {Dim{{{0}}}, Dim{{{1}}}};
  ExpectValues(GlobalIndices(rule, both, blocks, at::kCPU), {2, 3, 6, 7});
}

TEST(Elementwise, IntegersFollowC) {
  const at::Tensor a = at::tensor(Ints{7, -7, 7, -7}), b = at::tensor(Ints{2, 2, -2, -2});
  ExpectValues(RunOp("Div", {}, {a, b})[0], {3, -3, -3, 3});
  ExpectValues(RunOp("Mod", {}, {a, b})[0], {1, 1, -1, -1});
  ExpectValues(RunOp("Mod", {{"fmod", int64_t{1}}}, {a, b})[0], {1, -1, 1, -1});
  EXPECT_EQ(RunOp("Clip", {{"min", -3.4e38}, {"max", 2.0}}, {a})[0].scalar_type(), at::kLong);
}

TEST(Elementwise, RoundsHalfToEven) {
  ExpectValues(RunOp("Round", {}, {at::tensor({0.5, 1.5, 2.5, -0.5})})[0], {0, 2, 2, 0});
}

// Written out with the key heads repeated.
at::Tensor PlainAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          double scale, bool causal) {
  const int64_t times = q.size(-3) / k.size(-3);
  at::Tensor scores = at::matmul(q, k.repeat_interleave(times, -3).transpose(-2, -1)) * scale;
  if (causal) {
    const at::Tensor future = at::ones({q.size(-2), k.size(-2)}, at::kBool).triu(1);
    scores = scores.masked_fill(future, -1e300);
  }
  return at::matmul(at::softmax(scores, -1), v.repeat_interleave(times, -3));
}

TEST(Attention, IsTheFormula) {
  for (const int64_t key_heads : {6, 2, 1}) {
    for (const bool causal : {false, true}) {
      const at::Tensor q = at::randn({2, 6, 5, 4}, at::kDouble);
      const at::Tensor k = at::randn({2, key_heads, 7, 4}, at::kDouble);
      const at::Tensor v = at::randn({2, key_heads, 7, 3}, at::kDouble);
      const at::Tensor y =
          RunOp("Attention", {{"scale", 0.3}, {"causal", int64_t{causal}}}, {q, k, v})[0];
      EXPECT_TRUE(at::allclose(y, PlainAttention(q, k, v, 0.3, causal)));
    }
  }
}

TEST(Window, PadsMayDiffer) {
  const at::Tensor x = at::randn({2, 2, 5, 5}, at::kDouble),
                   w = at::randn({3, 2, 3, 3}, at::kDouble);
  const at::Tensor y = RunOp("Conv", {{"pads", Ints{1, 0, 2, 3}}}, {x, w})[0];
  EXPECT_TRUE(at::allclose(y, at::conv2d(at::constant_pad_nd(x, {0, 3, 1, 2}), w)));
}

TEST(Window, TransposedConvolutionIsTheGradientOfConvolution) {
  const at::Tensor x = at::randn({2, 4, 3}, at::kDouble), w = at::randn({4, 2, 3}, at::kDouble);
  const Attributes attributes = {{"strides", Ints{2}},
                                 {"pads", Ints{1, 0}},
                                 {"output_padding", Ints{1}},
                                 {"group", int64_t{2}}};
  const at::Tensor y = RunOp("ConvTranspose", attributes, {x, w})[0];
  const at::Tensor full = at::conv_transpose1d(x, w, {}, {2}, 0, 1, 2);
  EXPECT_TRUE(at::allclose(y, full.narrow(2, 1, y.size(2))));
}

TEST(Window, PoolingCountsWhatItCovers) {
  const at::Tensor x = Ramp({1, 1, 5});
  const Attributes padded = {
      {"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"ceil_mode", int64_t{1}}};
  // Windows (.,0,1) (1,2,3) (3,4,-).
  ExpectValues(RunOp("MaxPool", padded, {x})[0], {1, 3, 4});
  ExpectValues(RunOp("AveragePool", padded, {x})[0], {0.5, 2, 3.5});
  Attributes counted = padded;
  counted["count_include_pad"] = int64_t{1};
  ExpectValues(RunOp("AveragePool", counted, {x})[0], {1.0 / 3, 2, 3.5});
  counted["pads"] = Ints{1, 1};
  const at::Tensor longer = Ramp({1, 1, 6});
  EXPECT_TRUE(at::allclose(RunOp("AveragePool", counted, {longer})[0],
                           at::avg_pool1d(longer, {3}, {2}, {1}, true, true)));
}

TEST(Window, ResizesByFloorAndByHalfPixels) {
  ExpectValues(RunOp("Resize", {{"sizes", Ints{5}}}, {Ramp({1, 1, 3})})[0], {0, 0, 1, 1, 2});
  ExpectValues(RunOp("Resize", {{"sizes", Ints{4}}, {"mode", "linear"}}, {Ramp({1, 1, 2})})[0],
               {0, 0.25, 0.75, 1});
}

TEST(Normalisation, IsTheFormula) {
  const at::Tensor x = at::randn({3, 4}, at::kDouble), w = at::randn({4}, at::kDouble);
  const at::Tensor rms = x * at::rsqrt((x * x).mean(1, true) + 1e-6) * w;
  EXPECT_TRUE(
      at::allclose(RunOp("RMSNorm", {{"axis", int64_t{1}}, {"epsilon", 1e-6}}, {x, w})[0], rms));
  const at::Tensor mean = x.mean(0, true), var = x.var(0, false, true);
  const at::Tensor batch = (x - mean) * at::rsqrt(var + 1e-5) * w + w;
  EXPECT_TRUE(at::allclose(RunOp("BatchNorm", {{"epsilon", 1e-5}}, {x, w, w})[0], batch));
  EXPECT_TRUE(at::allclose(
      RunOp("BatchNormInference", {{"epsilon", 1e-5}}, {x, w, w, mean.flatten(), var.flatten()})[0],
      batch));
}

TEST(Movement, SlicesBackwardsAndPads) {
  const at::Tensor x = Ramp({5});
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return RunOp(
        "Slice",
        {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{0}}, {"steps", Ints{step}}},
        {x})[0];
  };
  ExpectValues(slice(3, -1, -2), {3, 1});
  ExpectValues(slice(4, 1, -1), {4, 3, 2});
  ExpectValues(slice(1, 5, 3), {1, 4});
  ExpectValues(slice(1, 3, 1), {1, 2});
  ExpectValues(slice(2, 2, 1), {});
  const auto pad = [&](const char* mode) {
    return RunOp("Pad", {{"pads", Ints{2, 3}}, {"mode", mode}, {"value", 9.0}}, {x})[0];
  };
  ExpectValues(pad("constant"), {9, 9, 0, 1, 2, 3, 4, 9, 9, 9});
  ExpectValues(pad("reflect"), {2, 1, 0, 1, 2, 3, 4, 3, 2, 1});
  ExpectValues(pad("edge"), {0, 0, 0, 1, 2, 3, 4, 4, 4, 4});
}

TEST(Indexing, ReadsAndWrites) {
  const at::Tensor x = Ramp({2, 3});
  ExpectValues(RunOp("Gather", {{"axis", int64_t{1}}}, {x, at::tensor(Ints{-1, 0})})[0],
               {2, 0, 5, 3});
  ExpectValues(RunOp("GatherND", {}, {x, at::tensor(Ints{0, 1, -1, -1}).reshape({2, 2})})[0],
               {1, 5});
  ExpectValues(RunOp("ScatterND", {}, {x, at::tensor(Ints{-1}).reshape({1, 1}), Ramp({1, 3})})[0],
               {0, 1, 2, 0, 1, 2});
  ExpectValues(
      RunOp("OneHot", {{"depth", int64_t{3}}, {"axis", int64_t{0}}}, {at::tensor(Ints{2, -3})})[0],
      {0, 1, 0, 0, 1, 0});
}

TEST(Reduction, ScansAndCounts) {
  const at::Tensor x = Ramp({4}) + 1;
  const auto scan = [&](int64_t exclusive, int64_t reverse) {
    return RunOp("CumSum", {{"axis", int64_t{0}}, {"exclusive", exclusive}, {"reverse", reverse}},
                 {x})[0];
  };
  ExpectValues(scan(0, 0), {1, 3, 6, 10});
  ExpectValues(scan(1, 0), {0, 1, 3, 6});
  ExpectValues(scan(0, 1), {10, 9, 7, 4});
  ExpectValues(scan(1, 1), {9, 7, 4, 0});
  ExpectValues(RunOp("LabelCount", {}, {at::tensor(Ints{1, -100, 2})})[0], {2});
}

TEST(Loss, MeansOverLabelsThatCount) {
  const at::Tensor logits = at::randn({4, 5}, at::kFloat);
  const at::Tensor labels = at::tensor(Ints{1, -100, 0, 4});
  const at::Tensor count = RunOp("LabelCount", {}, {labels})[0];
  const at::Tensor expected = at::cross_entropy_loss(logits, labels);
  EXPECT_TRUE(at::allclose(RunOp("CrossEntropy", {}, {logits, labels, count})[0], expected));
  const at::Tensor logp = RunOp("LogSoftmax", {{"axis", int64_t{1}}}, {logits})[0];
  EXPECT_TRUE(at::allclose(RunOp("NllLoss", {}, {logp, labels, count})[0], expected));
}

}  // namespace
}  // namespace heddle
