// Numbers of any float type to fp32 and back, rounded to nearest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace heddle {

inline __device__ float Widen(float x) { return x; }
inline __device__ float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
inline __device__ float Widen(__half x) { return __half2float(x); }
inline __device__ void Narrow(float x, float* to) { *to = x; }
inline __device__ void Narrow(float x, __nv_bfloat16* to) { *to = __float2bfloat16_rn(x); }
inline __device__ void Narrow(float x, __half* to) { *to = __float2half_rn(x); }

}  // namespace heddle
