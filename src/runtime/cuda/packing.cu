#include "runtime/cuda/packing.h"

#include <type_traits>

#include "runtime/cuda/widen.cuh"

namespace heddle {
namespace {

constexpr int kPackThreads = 256;
constexpr int kEach = 4;  // kept weights per thread and round, so that several loads are on their way at once

// Neighbouring threads have neighbouring kept weights, whose places ascend: they share cache lines of the dense ones.
template <class T, class Index>
__global__ void __launch_bounds__(kPackThreads)
    Gather(const T* __restrict__ dense, const Index* __restrict__ index, int64_t count,
           T* __restrict__ kept) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPackThreads * kEach + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t i = first + k * kPackThreads;
    if (i < count) kept[i] = dense[index[i]];
  }
}

template <class From, class To, class Index>
__global__ void __launch_bounds__(kPackThreads)
    Scatter(const From* __restrict__ kept, const Index* __restrict__ index, int64_t count,
            To* __restrict__ dense) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPackThreads * kEach + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t i = first + k * kPackThreads;
    if (i < count) Narrow(Widen(kept[i]), dense + index[i]);
  }
}

unsigned Blocks(int64_t count) {
  return static_cast<unsigned>((count + kPackThreads * kEach - 1) / (kPackThreads * kEach));
}

const char* PackLaunched() {
  cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// visit(pointer of the type)
template <class Visit>
void WithType(PackedType type, const Visit& visit) {
  if (type == PackedType::kF32) visit(static_cast<float*>(nullptr));
  if (type == PackedType::kBF16) visit(static_cast<__nv_bfloat16*>(nullptr));
  if (type == PackedType::kF16) visit(static_cast<__half*>(nullptr));
}

template <class Visit>
void WithIndex(const PackedIndex& index, const Visit& visit) {
  if (index.wide) {
    visit(static_cast<const int64_t*>(index.data));
  } else {
    visit(static_cast<const int32_t*>(index.data));
  }
}

}  // namespace

const char* GatherKept(const void* dense, PackedType type, const PackedIndex& index, void* kept,
                       void* stream) {
  if (index.count == 0) return nullptr;
  auto* on = static_cast<cudaStream_t>(stream);
  WithType(type, [&](auto* of) {
    using T = std::remove_pointer_t<decltype(of)>;
    WithIndex(index, [&](auto* at) {
      Gather<<<Blocks(index.count), kPackThreads, 0, on>>>(static_cast<const T*>(dense), at,
                                                       index.count, static_cast<T*>(kept));
    });
  });
  return PackLaunched();
}

const char* ScatterKept(const void* kept, PackedType kept_type, const PackedIndex& index,
                        void* dense, PackedType type, void* stream) {
  if (index.count == 0) return nullptr;
  auto* on = static_cast<cudaStream_t>(stream);
  WithType(kept_type, [&](auto* from_type) {
    using From = std::remove_pointer_t<decltype(from_type)>;
    WithType(type, [&](auto* to_type) {
      using To = std::remove_pointer_t<decltype(to_type)>;
      WithIndex(index, [&](auto* at) {
        Scatter<<<Blocks(index.count), kPackThreads, 0, on>>>(static_cast<const From*>(kept), at,
                                                          index.count, static_cast<To*>(dense));
      });
    });
  });
  return PackLaunched();
}

}  // namespace heddle
