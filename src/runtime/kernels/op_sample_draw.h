// How the samplers of ops draw shapes and operands. Names are short: a sampler is to read like the signature of its op.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/kernels/op_samples.h"

namespace heddle::samples {

using Ints = std::vector<int64_t>;

inline int64_t Between(SampleRng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}
inline bool Coin(SampleRng& rng) { return (rng() & 1) != 0; }
inline int64_t Size(SampleRng& rng) { return Between(rng, 1, 7); }

inline Shape Sizes(SampleRng& rng, int64_t rank) {
  Shape shape;
  for (int64_t d = 0; d < rank; ++d) shape.push_back(Size(rng));
  return shape;
}

inline OperandSample F(Shape shape, Fill fill = Fill::kNormal) {
  return {{DType::kF32, std::move(shape)}, fill, 0};
}
inline OperandSample I(Shape shape, Fill fill, int64_t bound) {
  return {{DType::kI64, std::move(shape)}, fill, bound};
}
inline OperandSample B(Shape shape) { return {{DType::kBool, std::move(shape)}, Fill::kBool, 0}; }

// A shape that broadcasts to `full`: leading dimensions dropped, others set to 1 at random.
inline Shape Broadcastable(SampleRng& rng, const Shape& full) {
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
template <Fill fill>
OpSample BinarySample(SampleRng& rng) {
  Shape full = Sizes(rng, Between(rng, 1, 4));
  OpSample sample{{}, {F(full, fill), F(Broadcastable(rng, full), fill)}};
  if (Coin(rng)) std::swap(sample.operands[0], sample.operands[1]);
  return sample;
}
template <class T>
OpSample With(OpSample sample, std::string name, T value) {
  sample.attributes[std::move(name)] = std::move(value);
  return sample;
}

inline OpSample AlongAxis(SampleRng& rng, Fill fill = Fill::kNormal) {
  Shape x = Sizes(rng, Between(rng, 1, 4));
  int64_t axis = Between(rng, 0, static_cast<int64_t>(x.size()) - 1);
  return {{{"axis", axis}}, {F(x, fill)}};
}

// The lists that AllSamplers puts together.
std::vector<OpSampler> NumericSamplers();
std::vector<OpSampler> StructuralSamplers();

}  // namespace heddle::samples
