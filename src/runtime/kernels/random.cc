#include "runtime/kernels/random.h"

#include <ATen/Parallel.h>

#include <numbers>
#include <vector>

#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

int64_t AsSigned(uint64_t x) { return static_cast<int64_t>(x); }

// x ^ (x >> shift) with zeros shifted in; at::Tensor shifts in the sign.
void XorShift(at::Tensor& x, int64_t shift) {
  at::Tensor high = at::bitwise_right_shift(x, shift);
  high.bitwise_and_(AsSigned(~uint64_t{0} >> shift));
  x.bitwise_xor_(high);
}

at::TensorOptions IndexOptions(at::Device device) {
  return at::TensorOptions(device).dtype(at::kLong);
}

int64_t GlobalSize(const Rule& rule, const Product& product) {
  int64_t size = 1;
  for (int f : product) size *= rule.factors[static_cast<size_t>(f)].size;
  return size;
}

// The global coordinates along one dimension of what a shard holds of it: for each piece of the
// concatenation, counted from where the piece begins, those of the product of its blocks.
at::Tensor Coordinates(const Rule& rule, const Dim& dim, std::span<const Block> blocks,
                       at::Device device) {
  std::vector<at::Tensor> pieces;
  int64_t begin = 0;
  for (const Product& term : dim.terms) {
    at::Tensor piece = at::full({1}, 0, IndexOptions(device));
    for (int f : term) {
      const Block& block = blocks[static_cast<size_t>(f)];
      const at::Tensor inner = at::arange(block.begin, block.end, IndexOptions(device));
      const int64_t stride = rule.factors[static_cast<size_t>(f)].size;
      piece = (piece.unsqueeze(1) * stride + inner.unsqueeze(0)).flatten();
    }
    pieces.push_back(piece + begin);
    begin += GlobalSize(rule, term);
  }
  if (pieces.empty()) return at::empty({0}, IndexOptions(device));
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces);
}

// Shards in host memory, in one pass.
at::Tensor UniformOnHost(uint64_t key, const at::Tensor& indices) {
  at::Tensor result = at::empty(indices.sizes(), indices.options().dtype(at::kFloat));
  const int64_t* index = indices.data_ptr<int64_t>();
  float* out = result.data_ptr<float>();
  at::parallel_for(0, indices.numel(), 1 << 14, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = RandomUniform(key, index[i]);
  });
  return result;
}

Tensors Dropout(const KernelCall& call) {
  const at::Tensor& x = Operand(call);
  const double ratio = FloatAttr(call.attributes, "ratio", 0.5);
  if (ratio <= 0) return {x};
  const at::Tensor dropped = UniformOfResult(call, 0) < ratio;
  return {x.masked_fill(dropped, 0) * (ratio < 1 ? 1 / (1 - ratio) : 0.0)};
}

Tensors RandomUniformLike(const KernelCall& call) {
  const double low = FloatAttr(call.attributes, "low", 0.0);
  const double high = FloatAttr(call.attributes, "high", 1.0);
  const at::Tensor u = UniformOfResult(call, 0);
  return {(u * (high - low) + low).to(ToTorch(call.rule.result_dtypes[0]))};
}

Tensors RandomNormalLike(const KernelCall& call) {
  const double mean = FloatAttr(call.attributes, "mean", 0.0);
  const double scale = FloatAttr(call.attributes, "scale", 1.0);
  const at::Tensor radius = at::sqrt(at::log1p(-UniformOfResult(call, 0)) * -2);
  const at::Tensor normal = radius * at::cos(UniformOfResult(call, 1) * (2 * std::numbers::pi));
  return {(normal * scale + mean).to(ToTorch(call.rule.result_dtypes[0]))};
}

Tensors Bernoulli(const KernelCall& call) {
  return {(UniformOfResult(call, 0) < Operand(call)).to(ToTorch(call.rule.result_dtypes[0]))};
}

}  // namespace

at::Tensor RandomUniform(uint64_t key, const at::Tensor& indices) {
  at::Tensor x = indices * AsSigned(kGolden);
  x.add_(AsSigned(key));
  XorShift(x, 30);
  x.mul_(AsSigned(kMixFirst));
  XorShift(x, 27);
  x.mul_(AsSigned(kMixSecond));
  XorShift(x, 31);
  const at::Tensor upper = at::bitwise_right_shift(x, 40).bitwise_and_(0xFFFFFF);
  return upper.to(at::kFloat).mul_(0x1p-24);
}

at::Tensor GlobalIndices(const Rule& rule, const Dims& dims, std::span<const Block> blocks,
                         at::Device device) {
  const Shape local = LocalShape(rule, dims, blocks), global = GlobalShape(rule, dims);
  if (local == global) {
    return at::arange(ElementCount(global), IndexOptions(device)).reshape(global);
  }
  at::Tensor indices = at::zeros({}, IndexOptions(device));
  for (size_t d = 0; d < dims.size(); ++d) {
    const at::Tensor along = Coordinates(rule, dims[d], blocks, device);
    indices = indices.unsqueeze(-1) * global[d] + along;
  }
  return indices;
}

at::Tensor UniformOfResult(const KernelCall& call, uint64_t stream) {
  const uint64_t key = RandomKey(call.random, stream);
  const at::Tensor indices =
      GlobalIndices(call.rule, call.rule.results[0], call.blocks, Operand(call).device());
  return indices.device().is_cpu() ? UniformOnHost(key, indices.contiguous())
                                   : RandomUniform(key, indices);
}

std::vector<KernelDef> RandomKernels() {
  return {
      {"Dropout", Dropout},
      {"RandomUniformLike", RandomUniformLike},
      {"RandomNormalLike", RandomNormalLike},
      {"Bernoulli", Bernoulli},
  };
}

}  // namespace heddle
