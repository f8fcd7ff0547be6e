// Every op, split in every way its rule allows, gives what it gives whole: results and gradients.
// Then single kernels against values known otherwise.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/op.h"
#include "runtime/kernels/kernel_util.h"
#include "runtime/kernels/random.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

// An operand whose elements are drawn from [low, high).
struct Arg {
  Shape shape;
  double low = -1;
  double high = 1;
  DType dtype = DType::kF64;
};
Arg Indices(Shape shape, double low, double high) {
  return {std::move(shape), low, high, DType::kI64};
}
Arg Bools(Shape shape) { return {std::move(shape), 0, 2, DType::kBool}; }

struct Sample {
  std::string op;
  Attributes attributes;
  std::vector<Arg> args;
};

const Shape kSome = {3, 4};

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  const auto each = [&](std::initializer_list<const char*> ops, std::vector<Arg> args) {
    for (const char* op : ops) samples.push_back({op, {}, args});
  };
  each({"Neg",        "Abs",       "Exp",      "Sin",
        "Cos",        "Tan",       "Asin",     "Acos",
        "Atan",       "Sinh",      "Cosh",     "Asinh",
        "Atanh",      "Tanh",      "Sigmoid",  "Erf",
        "Relu",       "Silu",      "Softplus", "Softsign",
        "Mish",       "HardSwish", "Selu",     "Sign",
        "IsNaN",      "IsInf",     "Identity", "Gelu",
        "LeakyRelu",  "Elu",       "Celu",     "ThresholdedRelu",
        "HardSigmoid"},
       {{kSome}});
  each({"Floor", "Ceil", "Round"}, {{kSome, -3, 3}});
  each({"Log", "Sqrt", "Reciprocal"}, {{kSome, 0.5, 2}});
  each({"Acosh"}, {{kSome, 1.5, 3}});
  each({"Not"}, {Bools(kSome)});
  each({"BitwiseNot"}, {Indices(kSome, 0, 99)});
  each({"Add", "Sub", "Mul", "Maximum", "Minimum", "Less", "LessOrEqual", "Greater",
        "GreaterOrEqual", "PRelu"},
       {{{2, 3, 4}}, {{3, 1}}});
  each({"Div", "Pow", "Mod"}, {{{2, 3, 4}, 1, 3}, {{4}, 1, 3}});
  each({"Div", "Mod", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"},
       {Indices({3, 4}, -9, 9), Indices({4}, 1, 5)});
  each({"And", "Or", "Xor"}, {Bools(kSome), Bools({4})});
  each({"Where"}, {Bools({3, 1}), {{4}}, {{3, 4}}});
  each({"MatMul"}, {{{2, 3, 4}}, {{4, 5}}});
  each({"Linear"}, {{{2, 3, 4}}, {{4, 5}}, {{5}}});
  each({"Linear"}, {{{3, 4}}, {{4, 5}}});
  const std::vector<Sample> more = {
      {"Gelu", {{"approximate", "tanh"}}, {{kSome}}},
      {"Clip", {{"min", -0.5}, {"max", 0.5}}, {{kSome}}},
      {"Clip", {{"max", 3.0}}, {Indices(kSome, 0, 9)}},
      {"Cast", {{"to", "i32"}}, {{kSome, -3, 3}}},
      {"Mod", {{"fmod", int64_t{1}}}, {{kSome, -3, 3}, {kSome, 1, 2}}},
      {"Linear", {{"transpose_weight", int64_t{1}}}, {{{3, 4}}, {{5, 4}}, {{5}}}},
      {"Einsum", {{"equation", "btec,btd->ebcd"}}, {{{2, 3, 4, 2}}, {{2, 3, 5}}}},
      {"Einsum", {{"equation", "...i,...i->..."}}, {{{2, 3}}, {{2, 3}}}},
      {"Conv",
       {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}, {"group", int64_t{2}}},
       {{{2, 4, 5, 5}}, {{6, 2, 3, 2}}, {{6}}}},
      {"Conv", {{"pads", Ints{1, 1}}, {"dilations", Ints{2}}}, {{{2, 3, 6}}, {{4, 3, 3}}, {{4}}}},
      {"Conv", {}, {{{1, 2, 3, 3, 3}}, {{2, 2, 2, 2, 2}}}},
      {"Conv", {{"group", int64_t{4}}}, {{{2, 4, 5}}, {{4, 1, 3}}, {{4}}}},
      {"ConvTranspose",
       {{"strides", Ints{2, 2}},
        {"pads", Ints{1, 0, 0, 1}},
        {"output_padding", Ints{1, 1}},
        {"group", int64_t{2}}},
       {{{2, 4, 3, 3}}, {{4, 3, 3, 3}}, {{6}}}},
      {"ConvTranspose",
       {{"strides", Ints{2}}, {"pads", Ints{1, 1}}},
       {{{2, 3, 4}}, {{3, 2, 3}}, {{2}}}},
      {"MaxPool", {{"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}}, {{{2, 3, 7}}}},
      {"MaxPool",
       {{"kernel", Ints{2, 3}},
        {"strides", Ints{2, 2}},
        {"pads", Ints{0, 1, 1, 0}},
        {"dilations", Ints{1, 2}},
        {"ceil_mode", int64_t{1}}},
       {{{2, 3, 6, 7}}}},
      {"MaxPool", {{"kernel", Ints{2, 2, 2}}}, {{{2, 2, 3, 3, 3}}}},
      {"AveragePool",
       {{"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}},
       {{{2, 3, 7}}}},
      {"AveragePool",
       {{"kernel", Ints{2, 3}},
        {"strides", Ints{2, 2}},
        {"pads", Ints{0, 1, 1, 0}},
        {"ceil_mode", int64_t{1}},
        {"count_include_pad", int64_t{1}}},
       {{{2, 3, 6, 6}}}},
      {"AveragePool",
       {{"kernel", Ints{2, 2, 2}}, {"pads", Ints{1, 0, 0, 0, 0, 0}}},
       {{{2, 2, 3, 3, 3}}}},
      {"Resize", {{"sizes", Ints{7}}}, {{{2, 3, 4}}}},
      {"Resize", {{"sizes", Ints{6, 3}}, {"mode", "linear"}}, {{{2, 3, 4, 4}}}},
      {"LayerNorm", {{"axis", int64_t{1}}, {"epsilon", 1e-5}}, {{{3, 4, 2}}, {{4, 2}}, {{4, 2}}}},
      {"RMSNorm", {{"axis", int64_t{1}}, {"epsilon", 1e-6}}, {{{3, 4}}, {{4}}}},
      {"BatchNorm", {{"epsilon", 1e-5}}, {{{3, 4, 2}}, {{4}}, {{4}}}},
      {"BatchNormInference",
       {{"epsilon", 1e-5}},
       {{{3, 4, 2}}, {{4}}, {{4}}, {{4}}, {{4}, 0.5, 2}}},
      {"InstanceNorm", {{"epsilon", 1e-5}}, {{{3, 4, 5}}, {{4}}, {{4}}}},
      {"GroupNorm", {{"groups", int64_t{3}}, {"epsilon", 1e-5}}, {{{2, 6, 5}}, {{6}}, {{6}}}},
      {"Softmax", {{"axis", int64_t{1}}}, {{{2, 3, 4}}}},
      {"LogSoftmax", {{"axis", int64_t{-1}}}, {{{2, 3, 4}}}},
      {"Attention", {{"scale", 0.5}}, {{{2, 3, 4, 5}}, {{2, 3, 6, 5}}, {{2, 3, 6, 2}}}},
      {"Attention",
       {{"scale", 0.5}, {"causal", int64_t{1}}},
       {{{2, 6, 5, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 3}}, {{6, 1, 5}}}},
      {"Attention",
       {{"scale", 0.5}, {"causal", int64_t{1}}},
       {{{4, 5, 4}}, {{1, 5, 4}}, {{1, 5, 4}}}},
      {"CrossEntropy",
       {{"ignore_index", int64_t{1}}, {"reduction", "mean"}},
       {{{4, 5, 2}}, Indices({4, 2}, 0, 5), {{}, 7, 7, DType::kF32}}},
      {"CrossEntropy", {{"reduction", "sum"}}, {{{4, 5}}, Indices({4}, 0, 5)}},
      {"CrossEntropy", {{"reduction", "none"}}, {{{4, 5}}, Indices({4}, 0, 5)}},
      {"NllLoss",
       {{"ignore_index", int64_t{1}}, {"reduction", "mean"}},
       {{{4, 5, 2}}, Indices({4, 2}, 0, 5), {{}, 7, 7, DType::kF32}}},
      {"NllLoss", {{"reduction", "none"}}, {{{4, 5}}, Indices({4}, 0, 5)}},
      {"LabelCount", {{"ignore_index", int64_t{1}}}, {Indices({4, 3}, 0, 3)}},
      {"ReduceSum", {{"axes", Ints{0, 2}}}, {{{2, 3, 4}}}},
      {"ReduceMean", {{"axes", Ints{0, 1}}, {"keepdims", int64_t{0}}}, {{{2, 3, 4}}}},
      {"ReduceMax", {{"axes", Ints{1}}}, {{{2, 3, 4}}}},
      {"ReduceMax", {{"axes", Ints{1}}, {"detached", int64_t{1}}}, {{{2, 3, 4}}}},
      {"ReduceMin", {{"axes", Ints{1}}}, {{{2, 3, 4}}}},
      {"ReduceProd", {{"axes", Ints{0, 2}}, {"keepdims", int64_t{0}}}, {{{2, 3, 4}}}},
      {"ArgMax", {{"axis", int64_t{1}}}, {{{2, 3, 4}}}},
      {"ArgMin", {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {{{2, 3, 4}}}},
      {"TopK", {{"k", int64_t{2}}, {"axis", int64_t{1}}}, {{{2, 3, 4}}}},
      {"CumSum",
       {{"axis", int64_t{1}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{1}}},
       {{{2, 3, 4}}}},
      {"Reshape", {{"shape", Ints{8, 2, 3}}}, {{{2, 4, 6}}}},
      {"Reshape", {{"shape", Ints{4, 6}}}, {{{6, 4}}}},
      {"Transpose", {{"perm", Ints{2, 0, 1}}}, {{{2, 3, 4}}}},
      {"Expand", {{"shape", Ints{2, 3, 4}}}, {{{3, 1}}}},
      {"Concat", {{"axis", int64_t{1}}}, {{{2, 4}}, {{2, 6}}, {{2, 2}}}},
      {"Split", {{"axis", int64_t{1}}, {"sizes", Ints{4, 2, 6}}}, {{{2, 12}}}},
      {"Slice",
       {{"starts", Ints{2, 4}},
        {"ends", Ints{4, -1}},
        {"axes", Ints{1, 2}},
        {"steps", Ints{1, -2}}},
       {{{2, 8, 5}}}},
      {"Slice",
       {{"starts", Ints{0}}, {"ends", Ints{4}}, {"axes", Ints{0}}, {"steps", Ints{1}}},
       {{{6, 2}}}},
      {"Slice",
       {{"starts", Ints{1}}, {"ends", Ints{6}}, {"axes", Ints{0}}, {"steps", Ints{2}}},
       {{{6, 2}}}},
      {"Pad", {{"pads", Ints{1, 0, 2, 0}}, {"value", 3.0}}, {{kSome}}},
      {"Pad", {{"pads", Ints{0, 1, 0, 3}}, {"mode", "reflect"}}, {{kSome}}},
      {"Pad", {{"pads", Ints{0, 1, 0, 5}}, {"mode", "edge"}}, {{kSome}}},
      {"Tile", {{"repeats", Ints{2, 3}}}, {{kSome}}},
      {"Trilu", {{"upper", int64_t{1}}}, {{{2, 4, 5}}}},
      {"Trilu", {{"upper", int64_t{0}}, {"k", int64_t{-1}}}, {{{4, 5}}}},
      {"Gather", {{"axis", int64_t{0}}}, {{{5, 3}}, Indices({2, 4}, -5, 5)}},
      {"Gather", {{"axis", int64_t{1}}}, {{{2, 5, 3}}, Indices({4}, -5, 5)}},
      {"GatherElements", {{"axis", int64_t{1}}}, {{{3, 5}}, Indices({3, 4}, -5, 5)}},
      {"GatherND", {{"batch_dims", int64_t{1}}}, {{{2, 3, 4, 5}}, Indices({2, 6, 2}, -3, 3)}},
      {"ScatterND", {{"reduction", "add"}}, {{{3, 4, 5}}, Indices({6, 2}, -3, 3), {{6, 5}}}},
      {"ScatterElements",
       {{"axis", int64_t{1}}, {"reduction", "add"}},
       {{{3, 5}}, Indices({3, 4}, -5, 5), {{3, 4}}}},
      {"OneHot",
       {{"depth", int64_t{5}}, {"axis", int64_t{1}}, {"on", 2.0}, {"off", -1.0}, {"to", "f64"}},
       {Indices({3, 2}, -5, 5)}},
      {"Dropout", {{"ratio", 0.5}}, {{{4, 6}}}},
      {"RandomUniformLike", {{"low", -1.0}, {"high", 3.0}, {"to", "f32"}}, {{{4, 6}}}},
      {"RandomNormalLike", {{"mean", 1.0}, {"scale", 2.0}, {"to", "f32"}}, {{{4, 6}}}},
      {"Bernoulli", {{"to", "f32"}}, {{{4, 6}, 0, 1}}},
  };
  samples.insert(samples.end(), more.begin(), more.end());
  return samples;
}

at::Tensor Draw(const Arg& arg, std::mt19937_64& engine) {
  std::uniform_real_distribution<double> uniform(arg.low, arg.high);
  std::vector<double> values(static_cast<size_t>(ElementCount(arg.shape)));
  for (double& value : values) value = uniform(engine);
  at::Tensor t = at::tensor(values, at::kDouble).reshape(arg.shape);
  if (!IsFloat(arg.dtype)) t = at::floor(t);
  return t.to(ToTorch(arg.dtype));
}

constexpr RandomState kRandom{11, 3, 7};

// A sample with its rule and drawn operands, on a device and with f64 replaced by another type.
struct Case {
  Sample sample;
  at::Device device;
  Rule rule;
  Tensors operands;

  Case(const Sample& s, at::Device d, DType dtype = DType::kF64) : sample(s), device(d) {
    std::mt19937_64 engine(5);
    std::vector<TensorType> types;
    for (const Arg& arg : s.args) {
      types.push_back({arg.dtype == DType::kF64 ? dtype : arg.dtype, arg.shape});
      operands.push_back(Draw(arg, engine).to(device, ToTorch(types.back().dtype)));
    }
    rule = MakeRule(s.op, s.attributes, types);
    for (int o : rule.differentiable) operands[static_cast<size_t>(o)].requires_grad_();
  }

  Tensors Run(std::span<const Block> blocks, const Tensors& local) const {
    return FindKernel(sample.op)({sample.attributes, rule, blocks, local, kRandom});
  }
};

at::Tensor ShardOf(const at::Tensor& whole, const Rule& rule, const Dims& dims,
                   std::span<const Block> blocks) {
  const at::Tensor indices = GlobalIndices(rule, dims, blocks, whole.device());
  return whole.flatten().index_select(0, indices.flatten()).reshape(indices.sizes());
}

bool Lacks(const Dims& dims, const Rule& rule, FactorKind kind) {
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind == kind && !Has(dims, static_cast<int>(f))) return true;
  }
  return false;
}

// Puts a rank's result r where it belongs in the whole: added, where other ranks have other terms.
void Merge(const Case& c, size_t r, std::span<const Block> blocks, const at::Tensor& local,
           at::Tensor* whole) {
  const Dims& dims = c.rule.results[r];
  ASSERT_EQ(local.sizes().vec(), LocalShape(c.rule, dims, blocks));
  ASSERT_EQ(local.scalar_type(), ToTorch(c.rule.result_dtypes[r]));
  const at::Tensor at = GlobalIndices(c.rule, dims, blocks, c.device).flatten();
  const at::Tensor values = local.to(at::kDouble).flatten();
  if (Lacks(dims, c.rule, FactorKind::kMaxed)) {
    const at::Tensor before = whole->index_select(0, at);
    *whole = whole->index_copy(0, at, at::maximum(before, values));
  } else {
    *whole = whole->index_add(0, at, values);
  }
}

struct Outcome {
  Tensors results;    // as doubles, flattened
  Tensors gradients;  // of the differentiable operands
};

// Runs every rank of the split given by parts[f] per factor and puts the pieces together.
Outcome RunSplit(const Case& c, const std::vector<int64_t>& parts) {
  Outcome outcome;
  for (size_t r = 0; r < c.rule.results.size(); ++r) {
    const bool maxed = Lacks(c.rule.results[r], c.rule, FactorKind::kMaxed);
    outcome.results.push_back(at::full({ElementCount(GlobalShape(c.rule, c.rule.results[r]))},
                                       maxed ? -1e300 : 0.0,
                                       at::dtype(at::kDouble).device(c.device)));
  }
  int64_t ranks = 1;
  for (int64_t p : parts) ranks *= p;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Block> blocks;
    int64_t rest = rank;
    for (size_t f = 0; f < parts.size(); ++f) {
      blocks.push_back(FactorBlock(c.rule.factors[f].size, parts[f], rest % parts[f]));
      rest /= parts[f];
    }
    Tensors local;
    for (size_t o = 0; o < c.operands.size(); ++o) {
      local.push_back(ShardOf(c.operands[o], c.rule, c.rule.operands[o], blocks));
    }
    const Tensors results = c.Run(blocks, local);
    EXPECT_EQ(results.size(), c.rule.results.size());
    for (size_t r = 0; r < results.size(); ++r)
      Merge(c, r, blocks, results[r], &outcome.results[r]);
  }
  at::Tensor score = at::zeros({}, at::dtype(at::kDouble).device(c.device));
  for (const at::Tensor& result : outcome.results) {
    if (!result.requires_grad()) continue;
    score = score + (result * at::arange(1, result.numel() + 1, result.options())).sum();
  }
  for (at::Tensor operand : c.operands) operand.mutable_grad().reset();
  if (score.requires_grad()) score.backward();
  for (int o : c.rule.differentiable) {
    const at::Tensor& operand = c.operands[static_cast<size_t>(o)];
    outcome.gradients.push_back(operand.grad().defined() ? operand.grad().clone()
                                                         : at::zeros_like(operand));
  }
  return outcome;
}

void ExpectSame(const Outcome& a, const Outcome& b, double tolerance = 1e-6) {
  for (size_t r = 0; r < a.results.size(); ++r) {
    EXPECT_TRUE(at::allclose(a.results[r], b.results[r], tolerance, tolerance))
        << a.results[r] << b.results[r];
  }
  for (size_t g = 0; g < a.gradients.size(); ++g) {
    EXPECT_TRUE(at::allclose(a.gradients[g], b.gradients[g], tolerance, tolerance))
        << "gradient " << g << a.gradients[g] << b.gradients[g];
  }
}

std::vector<at::Device> Devices() {
  std::vector<at::Device> devices = {at::kCPU};
  if (at::hasCUDA()) devices.push_back(at::kCUDA);
  return devices;
}

void ExpectSplitsGiveTheWhole(at::Device device) {
  for (const Sample& sample : Samples()) {
    const Case c(sample, device);
    std::vector<size_t> splittable;
    for (size_t f = 0; f < c.rule.factors.size(); ++f) {
      const FactorKind kind = c.rule.factors[f].kind;
      if (kind != FactorKind::kWhole && kind != FactorKind::kExpanded) splittable.push_back(f);
    }
    const std::vector<int64_t> unsplit(c.rule.factors.size(), 1);
    const Outcome whole = RunSplit(c, unsplit);
    for (size_t f : splittable) {
      for (int64_t count : {2, 3, 7}) {  // 7: some ranks are left with nothing
        SCOPED_TRACE(sample.op + ": " + ToString(c.rule) + ": " + c.rule.factors[f].name + " in " +
                     std::to_string(count));
        std::vector<int64_t> parts = unsplit;
        parts[f] = count;
        ExpectSame(whole, RunSplit(c, parts));
      }
    }
    for (size_t i = 1; i < splittable.size(); ++i) {
      SCOPED_TRACE(sample.op + ": " + ToString(c.rule) + ": neighbours in 2");
      std::vector<int64_t> parts = unsplit;
      parts[splittable[i - 1]] = parts[splittable[i]] = 2;
      ExpectSame(whole, RunSplit(c, parts));
    }
  }
}

TEST(Kernels, SplitsGiveTheWhole) {
  for (const at::Device device : Devices()) ExpectSplitsGiveTheWhole(device);
}

Outcome OnHost(Outcome outcome) {
  for (at::Tensor& t : outcome.results) t = t.cpu().to(at::kDouble);
  for (at::Tensor& t : outcome.gradients) t = t.cpu().to(at::kDouble);
  return outcome;
}

// Random numbers too are those of the host.
TEST(Kernels, DevicesAgree) {
  for (const at::Device device : Devices()) {
    for (const Sample& sample : Samples()) {
      SCOPED_TRACE(sample.op);
      const Case host(sample, at::kCPU), there(sample, device);
      const std::vector<int64_t> unsplit(host.rule.factors.size(), 1);
      ExpectSame(OnHost(RunSplit(host, unsplit)), OnHost(RunSplit(there, unsplit)));
    }
  }
}

TEST(Kernels, TypesAgree) {
  for (const at::Device device : Devices()) {
    for (const Sample& sample : Samples()) {
      SCOPED_TRACE(sample.op);
      const Case wide(sample, device), narrow(sample, device, DType::kF32);
      const std::vector<int64_t> unsplit(wide.rule.factors.size(), 1);
      // cuDNN convolves f32 in TF32, of 10 bits.
      const double tolerance = device.is_cuda() ? 1e-2 : 1e-4;
      ExpectSame(OnHost(RunSplit(wide, unsplit)), OnHost(RunSplit(narrow, unsplit)), tolerance);
    }
  }
}

// Forward and backward exist in the types of mixed precision (where the device's libtorch has them: on
// the host many are missing).
TEST(Kernels, NarrowTypesRun) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  for (const Sample& sample : Samples()) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(sample.op);
      const Case c(sample, at::kCUDA, dtype);
      EXPECT_NO_THROW(RunSplit(c, std::vector<int64_t>(c.rule.factors.size(), 1)));
    }
  }
}

TEST(Kernels, EveryOpHasOneAndASample) {
  std::set<std::string> sampled;
  for (const Sample& sample : Samples()) sampled.insert(sample.op);
  for (const OpDef& op : AllOps()) {
    EXPECT_NE(FindKernel(op.name), nullptr) << op.name;
    EXPECT_TRUE(sampled.contains(std::string(op.name))) << op.name;
  }
  for (const KernelDef& kernel : AllKernels()) EXPECT_NE(FindOp(kernel.op), nullptr) << kernel.op;
  EXPECT_EQ(FindKernel("Loom"), nullptr);
}

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
