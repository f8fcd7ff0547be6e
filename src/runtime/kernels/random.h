// Counter-based random numbers: a pure function of (seed, step, node, stream) and the global
// position of an element, so that every sharding of a tensor draws the same numbers.
//
//   key(state, stream) = the four words mixed in turn
//   bits(key, i)       = Mix(key + i * kGolden)        Mix: the finaliser of SplitMix64 (Steele et
//   al. 2014) uniform            = the upper 24 bits of `bits` as a fraction, in [0,1) normal =
//   sqrt(-2 ln(1-u0)) cos(2 pi u1), u0 and u1 from streams 0 and 1 (Box-Muller)
//
// The scalar functions are the definition; the tensor ones give the same bits.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "ops/rule.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

inline constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
inline constexpr uint64_t kMixFirst = 0xBF58476D1CE4E5B9u;
inline constexpr uint64_t kMixSecond = 0x94D049BB133111EBu;

constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * kMixFirst;
  x = (x ^ (x >> 27)) * kMixSecond;
  return x ^ (x >> 31);
}

constexpr uint64_t RandomKey(const RandomState& state, uint64_t stream) {
  uint64_t key = 0;
  for (uint64_t word : {state.seed, state.step, state.node, stream})
    key = Mix((key ^ word) + kGolden);
  return key;
}

constexpr uint64_t RandomBits(uint64_t key, int64_t index) {
  return Mix(key + static_cast<uint64_t>(index) * kGolden);
}

constexpr float RandomUniform(uint64_t key, int64_t index) {
  return static_cast<float>(RandomBits(key, index) >> 40) * 0x1p-24f;
}

// RandomUniform of an i64 tensor of indices, as f32, in tensor operations on its device.
at::Tensor RandomUniform(uint64_t key, const at::Tensor& indices);

// The row-major positions in the global tensor of the elements of a local shard, as i64 in its
// shape.
at::Tensor GlobalIndices(const Rule& rule, const Dims& dims, std::span<const Block> blocks,
                         at::Device device);

// RandomUniform of result 0 of a call, in its local shape, on the device of operand 0.
at::Tensor UniformOfResult(const KernelCall& call, uint64_t stream);

}  // namespace heddle
