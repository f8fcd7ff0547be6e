#include "runtime/cuda/cross_entropy.h"

#include <cmath>

#include "runtime/cuda/widen.cuh"

namespace heddle {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;

// So many elements in one access of 16 bytes.
template <class T>
constexpr int kPack = 16 / sizeof(T);

template <class T>
__device__ bool IsPacked(const T* data, int64_t stride) {
  return stride % kPack<T> == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

template <class T>
struct alignas(16) Pack {
  T at[kPack<T>];
};

// A sum of exponentials relative to their largest.
struct LogSum {
  float most = -INFINITY, sum = 0;

  __device__ void Add(float x) {
    if (x > most) {
      sum = sum * __expf(most - x) + 1;
      most = x;
    } else if (x != -INFINITY) {  // else exp(-inf - -inf)
      sum += __expf(x - most);
    }
  }
  __device__ void Join(float most2, float sum2) {
    float top = fmaxf(most, most2);
    if (top == -INFINITY) return;
    sum = sum * __expf(most - top) + sum2 * __expf(most2 - top);
    most = top;
  }
};

// One block per row. A NaN makes every comparison false and enters the sum: the loss is NaN.
template <class T>
__global__ void __launch_bounds__(kThreads) Losses(LogitRows rows, float* losses, float* log_sums) {
  const int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(rows.data) + row * rows.stride;
  const int64_t label = rows.labels[row];
  LogSum mine;
  const bool packed = IsPacked(x, rows.stride);
  const int64_t packs = packed ? rows.classes / kPack<T> : 0;
  for (int64_t p = threadIdx.x; p < packs; p += kThreads) {
    const Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[p];
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) mine.Add(Widen(pack.at[k]));
  }
  for (int64_t c = packs * kPack<T> + threadIdx.x; c < rows.classes; c += kThreads)
    mine.Add(Widen(x[c]));

  for (int d = 16; d > 0; d /= 2) {
    mine.Join(__shfl_xor_sync(0xffffffffu, mine.most, d), __shfl_xor_sync(0xffffffffu, mine.sum, d));
  }
  __shared__ float most[kWarps], sum[kWarps];
  if (threadIdx.x % 32 == 0) {
    most[threadIdx.x / 32] = mine.most;
    sum[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) mine.Join(most[w], sum[w]);
  const float log_sum = mine.most + logf(mine.sum);
  log_sums[row] = log_sum;
  if (label == rows.ignored) {
    losses[row] = 0;
  } else {
    const bool known = label >= 0 && label < rows.classes;
    losses[row] = known ? log_sum - Widen(x[label]) : NAN;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    Gradients(LogitRows rows, const float* log_sums, const float* of_loss, T* gradient,
              int64_t stride_out) {
  const int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(rows.data) + row * rows.stride;
  T* out = gradient + row * stride_out;
  const int64_t label = rows.labels[row];
  const float factor = label == rows.ignored ? 0.0f : of_loss[row];
  const float log_sum = log_sums[row];
  auto at = [&](float value, int64_t c) {
    // Ignored rows give zeros, whatever they hold.
    if (factor == 0) return 0.0f;
    return (__expf(value - log_sum) - (c == label ? 1.0f : 0.0f)) * factor;
  };
  const bool packed = IsPacked(x, rows.stride) && IsPacked(out, stride_out);
  const int64_t packs = packed ? rows.classes / kPack<T> : 0;
  for (int64_t p = threadIdx.x; p < packs; p += kThreads) {
    const Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[p];
    Pack<T> made;
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      Narrow(at(Widen(pack.at[k]), p * kPack<T> + k), &made.at[k]);
    reinterpret_cast<Pack<T>*>(out)[p] = made;
  }
  for (int64_t c = packs * kPack<T> + threadIdx.x; c < rows.classes; c += kThreads)
    Narrow(at(Widen(x[c]), c), &out[c]);
}

const char* LaunchError() {
  cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* RowLosses(const LogitRows& rows, float* losses, float* log_sums, void* stream) {
  if (rows.rows == 0) return nullptr;
  auto on = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>(rows.rows);
  switch (rows.type) {
    case LogitType::kF32:
      Losses<float><<<blocks, kThreads, 0, on>>>(rows, losses, log_sums);
      break;
    case LogitType::kBF16:
      Losses<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(rows, losses, log_sums);
      break;
    case LogitType::kF16:
      Losses<__half><<<blocks, kThreads, 0, on>>>(rows, losses, log_sums);
      break;
  }
  return LaunchError();
}

const char* RowLossGradients(const LogitRows& rows, const float* log_sums, const float* of_loss,
                             void* gradient, int64_t stride_out, void* stream) {
  if (rows.rows == 0) return nullptr;
  auto on = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>(rows.rows);
  switch (rows.type) {
    case LogitType::kF32:
      Gradients<<<blocks, kThreads, 0, on>>>(rows, log_sums, of_loss,
                                             static_cast<float*>(gradient), stride_out);
      break;
    case LogitType::kBF16:
      Gradients<<<blocks, kThreads, 0, on>>>(rows, log_sums, of_loss,
                                             static_cast<__nv_bfloat16*>(gradient), stride_out);
      break;
    case LogitType::kF16:
      Gradients<<<blocks, kThreads, 0, on>>>(rows, log_sums, of_loss,
                                             static_cast<__half*>(gradient), stride_out);
      break;
  }
  return LaunchError();
}

}  // namespace heddle
