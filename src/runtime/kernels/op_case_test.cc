#include "runtime/kernels/op_case.h"

#include <algorithm>
#include <limits>
#include <random>

namespace heddle {
namespace {

std::vector<double> Shuffled(size_t count, SampleRng& rng) {
  std::vector<double> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = static_cast<double>(i);
  std::shuffle(order.begin(), order.end(), rng);
  return order;
}

TensorType WithFloats(TensorType type, DType floats) {
  if (type.dtype == DType::kF32) type.dtype = floats;
  return type;
}

}  // namespace

at::Tensor Draw(const OperandSample& sample, SampleRng& rng, DType floats) {
  size_t count = static_cast<size_t>(ElementCount(sample.type.shape));
  std::vector<double> values(count);
  std::normal_distribution<double> normal;
  auto unit = [&] { return static_cast<double>(rng() >> 11) * 0x1p-53; };
  auto below = [&](int64_t n) { return static_cast<double>(rng() % static_cast<uint64_t>(n)); };
  std::vector<double> order = Shuffled(count, rng);
  std::vector<double> unique =
      Shuffled(static_cast<size_t>(std::max<int64_t>(sample.bound, 0)), rng);
  int64_t rows = sample.type.shape.empty() ? 1 : std::max<int64_t>(sample.type.shape[0], 1);
  for (size_t i = 0; i < count; ++i) {
    switch (sample.fill) {
      case Fill::kNormal:
        values[i] = normal(rng);
        break;
      case Fill::kPositive:
        values[i] = 0.5 + 1.5 * unit();
        break;
      case Fill::kUnit:
        values[i] = 1.8 * unit() - 0.9;
        break;
      case Fill::kDistinct:
        values[i] = 1.0 + 0.37 * order[i] + 0.01 * unit();
        break;
      case Fill::kIndex:
        values[i] = below(sample.bound);
        break;
      case Fill::kSignedIndex:
        values[i] = sample.bound < 0 ? static_cast<double>(sample.bound)
                                     : below(2 * sample.bound) - static_cast<double>(sample.bound);
        break;
      case Fill::kUnique:
        values[i] = unique[i / (count / static_cast<size_t>(rows))];
        break;
      case Fill::kLabel:
        values[i] = rng() % 4 == 0 ? -100 : below(sample.bound);
        break;
      case Fill::kBool:
        values[i] = static_cast<double>(rng() & 1);
        break;
    }
  }
  at::Tensor tensor = at::tensor(values, at::kDouble).reshape(sample.type.shape);
  return tensor.to(ToTorch(WithFloats(sample.type, floats).dtype));
}

OpCase::OpCase(const OpSampler& sampler, SampleRng rng, DType floats, at::Device device)
    : op(sampler.op) {
  OpSample sample = sampler.draw(rng);
  attributes = sample.attributes;
  for (const OperandSample& operand : sample.operands) {
    types.push_back(WithFloats(operand.type, floats));
    operands.push_back(Draw(operand, rng, floats).to(device));
  }
  rule = MakeRule(op, attributes, types);
  for (const TensorType& type : ResultTypes(rule)) {
    OperandSample gradient{{DType::kF32, type.shape}, Fill::kNormal, 0};
    at::Tensor drawn = Draw(gradient, rng, floats).to(device);
    result_gradients.push_back(IsFloat(type.dtype) ? drawn : at::Tensor());
  }
  whole = EvaluateWhole(op, attributes, rule, operands, result_gradients);
}

Evaluation OpCase::Split(const std::vector<SplitAxis>& axes) const {
  return EvaluateSplit(op, attributes, rule, operands, result_gradients, axes);
}

Evaluation OpCase::Expand(const Graph& graph, const std::vector<int>& split_dims,
                          int64_t ranks) const {
  Evaluation expanded = EvaluateGraph(graph, operands, result_gradients, split_dims, ranks);
  for (size_t o = 0; o < operands.size(); ++o) {
    if (!whole.gradients[o].defined()) expanded.gradients[o].reset();
  }
  return expanded;
}

double Difference(const at::Tensor& got, const at::Tensor& want) {
  if (!got.defined() && !want.defined()) return 0;
  constexpr double kUnlike = std::numeric_limits<double>::infinity();
  if (!got.defined() || !want.defined() || got.sizes() != want.sizes()) return kUnlike;
  if (want.numel() == 0) return 0;
  at::Tensor a = got.detach().cpu().to(at::kDouble), b = want.detach().cpu().to(at::kDouble);
  double error = (a - b).abs().max().item<double>();
  // A NaN compares false with any tolerance.
  return error / std::max(1.0, b.abs().max().item<double>());
}

}  // namespace heddle
