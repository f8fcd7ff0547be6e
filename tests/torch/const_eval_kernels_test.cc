// Constant folding must not change a model. The evaluator of constants does not use libtorch, so its results are
// compared with those of the kernels, for the samples that prove the rules.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.h"
#include "frontend/const_eval.h"
#include "ops/op.h"
#include "runtime/kernels/kernel.h"
#include "runtime/kernels/op_case.h"
#include "runtime/kernels/op_samples.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

constexpr int kSamplesPerSampler = 40;
constexpr double kTolerance = 1e-5;
constexpr float kFloatInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Ops that are not folded: whole layers, losses and random numbers.
const std::set<std::string_view>& NotFolded() {
  static const std::set<std::string_view> ops = {"Attention",
                                                 "AveragePool",
                                                 "BatchNorm",
                                                 "BatchNormInference",
                                                 "Bernoulli",
                                                 "Conv",
                                                 "ConvTranspose",
                                                 "Dropout",
                                                 "Einsum",
                                                 "CrossEntropy",
                                                 "GroupNorm",
                                                 "InstanceNorm",
                                                 "LayerNorm",
                                                 "LabelCount",
                                                 "Linear",
                                                 "LogSoftmax",
                                                 "MaxPool",
                                                 "NllLoss",
                                                 "RMSNorm",
                                                 "RandomNormalLike",
                                                 "RandomUniformLike",
                                                 "Resize",
                                                 "Softmax"};
  return ops;
}

struct Application {
  std::string_view op;
  Attributes attributes;
  std::vector<at::Tensor> operands;

  std::vector<TensorType> types() const {
    std::vector<TensorType> types;
    for (const at::Tensor& operand : operands) types.push_back(ToHostTensor(operand).type());
    return types;
  }
  std::string Describe() const {
    std::string text(op);
    for (const TensorType& type : types()) text += " " + ToString(type);
    return text;
  }
};

std::optional<Rule> TryRule(const Application& a) {
  try {
    return MakeRule(a.op, a.attributes, a.types());
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::optional<std::vector<at::Tensor>> TryKernel(const Application& a, const Rule& rule) {
  std::vector<Block> blocks = WholeBlocks(rule);
  try {
    std::vector<at::Tensor> results =
        FindKernel(a.op)({a.attributes, rule, blocks, a.operands, {}});
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r].scalar_type() != ToTorch(rule.result_dtypes[r])) return std::nullopt;
    }
    return results;
  } catch (const std::exception&) {
    return std::nullopt;  // libtorch has no such op for these types
  }
}

std::optional<std::vector<ConstTensor>> TryEvaluator(const Application& a, const Rule& rule) {
  std::vector<ConstTensor> operands;
  for (const at::Tensor& operand : a.operands) operands.push_back(Compress(ToHostTensor(operand)));
  std::vector<TensorType> types = ResultTypes(rule);
  return EvaluateConstant(a.op, a.attributes, operands, types);
}

// True if the numbers are equal, both NaN, or floats with a small difference.
void ExpectAgree(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  ASSERT_EQ(got.scalar_type(), want.scalar_type()) << what;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  at::Tensor same = got.eq(want);
  if (want.is_floating_point()) {
    at::Tensor a = got.to(at::kDouble), b = want.to(at::kDouble);
    at::Tensor near = (a - b).abs().le(kTolerance * at::clamp_min(b.abs(), 1.0));
    same = same.logical_or(a.isnan().logical_and(b.isnan()));
    same = same.logical_or(near.logical_and(b.isfinite()));
  }
  EXPECT_TRUE(same.all().item<bool>()) << what << "\ngot " << got << "\nwant " << want;
}

enum class Outcome : uint8_t { kCompared, kNotKnown, kNoKernel, kNoRule };

Outcome Compare(const Application& a) {
  std::optional<Rule> rule = TryRule(a);
  if (!rule) return Outcome::kNoRule;
  std::optional<std::vector<at::Tensor>> want = TryKernel(a, *rule);
  if (!want) return Outcome::kNoKernel;
  std::optional<std::vector<ConstTensor>> got = TryEvaluator(a, *rule);
  if (!got) return Outcome::kNotKnown;
  if (got->size() != want->size()) {
    ADD_FAILURE() << a.Describe() << ": " << got->size() << " results";
    return Outcome::kCompared;
  }
  for (size_t r = 0; r < want->size(); ++r) {
    ExpectAgree(ToTorchTensor(Materialize((*got)[r])), (*want)[r],
                a.Describe() + ", result " + std::to_string(r));
  }
  return Outcome::kCompared;
}

// Repeats the tensor along a dimension, so that it can be compressed.
at::Tensor Repeat(const at::Tensor& tensor, SampleRng& rng) {
  if (tensor.dim() == 0) return tensor;
  int64_t dim = static_cast<int64_t>(rng() % static_cast<uint64_t>(tensor.dim()));
  return tensor.narrow(dim, 0, 1).expand(tensor.sizes()).contiguous();
}

// A sample with floats of type f32, or converted to i64 or bool.
Application DrawApplication(const OpSampler& sampler, SampleRng rng, DType floats) {
  OpSample sample = sampler.draw(rng);
  Application a{sampler.op, sample.attributes, {}};
  for (const OperandSample& operand : sample.operands) {
    at::Tensor drawn = Draw(operand, rng, DType::kF64);
    if (operand.type.dtype == DType::kF32 && floats == DType::kI64) drawn = drawn * 4;
    if (operand.type.dtype == DType::kF32 && floats == DType::kBool) drawn = drawn.gt(0.5);
    if (operand.type.dtype == DType::kF32) drawn = drawn.to(ToTorch(floats));
    bool distinct = operand.fill == Fill::kUnique || operand.fill == Fill::kDistinct;
    if (!distinct && rng() % 3 == 0) drawn = Repeat(drawn, rng);
    a.operands.push_back(drawn);
  }
  return a;
}

class ConstEvalKernels : public testing::TestWithParam<size_t> {
 protected:
  const OpSampler& sampler() const { return AllSamplers()[GetParam()]; }

  void CompareSamples(DType floats) {
    for (int i = 0; i < kSamplesPerSampler && !HasFailure(); ++i) {
      SampleRng rng(static_cast<uint64_t>(i) * 1000003 + GetParam());
      Compare(DrawApplication(sampler(), rng, floats));
    }
  }
};

TEST_P(ConstEvalKernels, AgreeOnFloats) {
  for (int i = 0; i < kSamplesPerSampler && !HasFailure(); ++i) {
    SampleRng rng(static_cast<uint64_t>(i) * 1000003 + GetParam());
    Application a = DrawApplication(sampler(), rng, DType::kF32);
    Outcome outcome = Compare(a);
    bool padded_otherwise =
        a.op == "Pad" && StringAttr(a.attributes, "mode", "constant") != "constant";
    EXPECT_EQ(outcome == Outcome::kNotKnown, NotFolded().contains(a.op) || padded_otherwise)
        << a.Describe();
    EXPECT_TRUE(outcome == Outcome::kCompared || outcome == Outcome::kNotKnown) << a.Describe();
  }
}
TEST_P(ConstEvalKernels, AgreeOnIntegers) { CompareSamples(DType::kI64); }
TEST_P(ConstEvalKernels, AgreeOnTruthValues) { CompareSamples(DType::kBool); }

// Ties, signed zeros, infinities and NaN.
TEST_P(ConstEvalKernels, AgreeOnSpecialNumbers) {
  at::Tensor special =
      at::tensor({-kFloatInf, -100.0f, -30.0f, -7.0f, -2.5f,  -1.5f,     -1.0f, -0.5f, -0.3f,
                  -0.0f,      0.0f,    1e-30f, 0.3f,  0.5f,   0.6f,      1.0f,  1.5f,  2.5f,
                  3.5f,       7.0f,    30.0f,  88.0f, 100.0f, kFloatInf, kNaN});
  SampleRng rng(GetParam());
  OpSample sample = sampler().draw(rng);
  Application a{sampler().op, sample.attributes, {special}};
  if (sample.operands.size() == 2) a.operands = {special.unsqueeze(1), special};
  if (sample.operands.size() > 2 || sample.operands.back().type.dtype != DType::kF32) return;
  if (a.op == "Cast" || a.op == "TopK")
    return;  // infinite integers and the order of NaN are undefined
  Compare(a);
}

TEST_P(ConstEvalKernels, AgreeOnPairsOfIntegers) {
  at::Tensor numbers = at::tensor({-100, -7, -3, -2, -1, 1, 2, 3, 7, 100}, at::kLong);
  SampleRng rng(GetParam());
  OpSample sample = sampler().draw(rng);
  if (sample.operands.size() != 2 || sampler().op == "MatMul") return;
  at::Tensor others = sampler().op == "Pow" ? numbers.abs().remainder(10) : numbers;
  Compare({sampler().op, {}, {numbers.unsqueeze(1), others}});
  Compare({sampler().op, sample.attributes, {numbers.unsqueeze(1), others}});
}

INSTANTIATE_TEST_SUITE_P(Ops, ConstEvalKernels, testing::Range(size_t{0}, AllSamplers().size()),
                         [](const auto& info) {
                           return std::string(AllSamplers()[info.param].op) + "_" +
                                  std::to_string(info.param);
                         });

// --- Casts ---------------------------------------------------------------------------------------

// Numbers that every type can represent after rounding, with different results for halves, signs and overflow.
at::Tensor Numbers(DType from, DType to) {
  std::vector<double> numbers = {0, 0.5, 1, 1.5, 2.5, 3.49999, 3.5, 77.75, 100.5, 126.9};
  bool into_unsigned = IsFloat(from) && to == DType::kU8;  // undefined for negative floats
  if (!into_unsigned && from != DType::kU8) {
    for (double negative : {-0.0, -0.5, -1.0, -1.5, -2.5, -3.5, -100.5, -127.9}) {
      numbers.push_back(negative);
    }
  }
  if (!IsFloat(from) && from != DType::kBool && SizeOf(from) > 1) {
    for (double wide : {128.0, 255.0, 256.0, 300.0, -129.0, -300.0, 30000.0})
      numbers.push_back(wide);
  }
  if (from == DType::kI64) {
    for (double wide : {16777217.0, 4294967296.0, 9007199254740991.0}) numbers.push_back(wide);
  }
  bool wide_float = from == DType::kF32 || from == DType::kF64;
  if (wide_float && IsFloat(to)) {
    // Ties between 16-bit floats, subnormal numbers and overflows.
    for (double tie : {2049.0, 2051.0, 257.0, 259.0, 65519.0, 65520.0, 1e-7, 6e-8, 3e-8, 1e-40,
                       1e38, 1.0 / 3, 1.00048828125, 1.00390625, 3.3961776e38}) {
      numbers.push_back(tie);
      numbers.push_back(-tie);
    }
    numbers.push_back(static_cast<double>(kFloatInf));
    numbers.push_back(static_cast<double>(kNaN));
  }
  return at::tensor(numbers, at::kDouble).to(ToTorch(from));
}

TEST(ConstEvalCasts, AgreeExactlyBetweenAllTypes) {
  for (const DTypeInfo& from : AllDTypes()) {
    for (const DTypeInfo& to : AllDTypes()) {
      Application a{"Cast", {{"to", std::string(to.name)}}, {Numbers(from.dtype, to.dtype)}};
      std::optional<Rule> rule = TryRule(a);
      ASSERT_TRUE(rule) << a.Describe();
      at::Tensor want = TryKernel(a, *rule)->front();
      at::Tensor got = ToTorchTensor(Materialize(TryEvaluator(a, *rule)->front()));
      at::Tensor same = got.eq(want);
      if (IsFloat(to.dtype)) same = same.logical_or(got.isnan().logical_and(want.isnan()));
      EXPECT_TRUE(same.all().item<bool>())
          << a.Describe() << " to " << to.name << "\ngot " << got << "\nwant " << want;
    }
  }
}

}  // namespace
}  // namespace heddle
