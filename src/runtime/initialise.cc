#include "runtime/initialise.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "ops/traits.h"
#include "runtime/kernel_threads.h"
#include "runtime/kernels/kernel.h"
#include "runtime/kernels/random.h"

namespace heddle {
namespace {

enum class Role { kTable, kWeight, kOne, kZero };

struct Use {
  Role role = Role::kTable;
  double fan_in = 1;
};

// Fan in: how many products of the weight are summed for one result.
double FanIn(const Rule& rule, size_t operand) {
  double fan = 1;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!Has(rule.operands[operand], static_cast<int>(f))) continue;
    if (Has(rule.results[0], static_cast<int>(f))) continue;
    fan *= static_cast<double>(rule.factors[f].size);
  }
  return fan;
}

// How a parameter starts that a node reads as operand `o`.
Use UseBy(const Node& node, const Rule& rule, size_t o, const TensorType& type) {
  const OpTraits& traits = TraitsOf(node.op);
  if (traits.statistics != NormStatistics::kNone) {
    return {traits.gain == o ? Role::kOne : Role::kZero, 1};
  }
  bool attended = traits.kind == OpKind::kAttention && o == 2;  // the values
  if (traits.bias == o || attended) return {Role::kZero, 1};
  bool contraction = !rule.work.empty() && rule.work[0].contraction;
  if (contraction) return {Role::kWeight, FanIn(rule, o)};
  // A scale that multiplies starts with 1, a bias that is added with 0.
  bool row = type.shape.size() <= 1;
  if (row && traits.neutral && traits.neutral->left) {
    return {traits.neutral->value == 1 ? Role::kOne : Role::kZero, 1};
  }
  return {Role::kTable, 1};
}

// The first use that decides; relabelings such as a transpose pass a parameter on.
Use FirstUse(const Graph& graph, ValueId value, const Rules& rules) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (node.operands[o] != value) continue;
      if (rules[n].view) return FirstUse(graph, node.results[0], rules);
      return UseBy(node, rules[n], o, graph.value(value).type);
    }
  }
  return {};
}

at::Tensor SeededUniform(const Shape& shape, uint64_t seed, uint64_t stream, uint64_t part,
                         int64_t first) {
  at::Tensor result = at::empty(shape, at::kFloat);
  float* out = result.data_ptr<float>();
  uint64_t key = RandomKey({seed, 0, stream}, part);
  at::parallel_for(0, result.numel(), 1 << 14, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = RandomUniform(key, first + i);
  });
  return result;
}

}  // namespace

at::Tensor SeededNormal(const Shape& shape, uint64_t seed, uint64_t stream, int64_t first) {
  constexpr int64_t kPiece = 1 << 14;  // elements that stay in the cache
  at::Tensor result = at::empty(shape, at::kFloat), flat = result.view({-1});
  int64_t elements = flat.numel();
  ForEachInThreads((elements + kPiece - 1) / kPiece, [&](int64_t at) {
    int64_t begin = at * kPiece;
    Shape piece = {std::min(kPiece, elements - begin)};
    at::Tensor radius = SeededUniform(piece, seed, stream, 0, first + begin);
    at::Tensor angle = SeededUniform(piece, seed, stream, 1, first + begin);
    radius = (-2 * (1 - radius).log()).sqrt().mul_((angle * (2 * M_PI)).cos_());
    flat.narrow(0, begin, piece[0]).copy_(radius);
  });
  return result;
}

at::Tensor SeededIntegers(const Shape& shape, int64_t bound, uint64_t seed, uint64_t stream,
                          int64_t first) {
  at::Tensor uniform = SeededUniform(shape, seed, stream, 0, first).to(at::kDouble);
  return (uniform * static_cast<double>(bound)).to(at::kLong).clamp_max_(bound - 1);
}

at::Tensor InitialWeights(const Graph& graph, ValueId parameter, const Rules& rules,
                          uint64_t seed) {
  const Value& value = graph.value(parameter);
  at::TensorOptions options(ToTorch(value.type.dtype));
  Use use = FirstUse(graph, parameter, rules);
  if (use.role == Role::kOne) return at::ones(value.type.shape, options);
  if (use.role == Role::kZero) return at::zeros(value.type.shape, options);
  double deviation = use.role == Role::kTable ? 0.02 : 1 / std::sqrt(use.fan_in);
  at::Tensor normal = SeededNormal(value.type.shape, seed, HashString(value.name));
  return normal.mul_(deviation).to(options);
}

}  // namespace heddle
