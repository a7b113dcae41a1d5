// Activations in registers are f32; in memory they are T: float, or __nv_bfloat16, which rounds to
// nearest even. Rounding points of bf16 mode go through round_as<T>.
#pragma once

#include <cuda_bf16.h>

namespace baltoro::cuda {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float to_f32(float value) { return value; }
__device__ __forceinline__ float to_f32(bf16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_f32(float value);
template <>
__device__ __forceinline__ float from_f32<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ bf16 from_f32<bf16>(float value) {
  return __float2bfloat16_rn(value);
}

// The value as T stores it.
template <typename T>
__device__ __forceinline__ float round_as(float value) {
  return to_f32(from_f32<T>(value));
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
// log1p(exp(x)), x itself above 20 as in the released code.
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

}  // namespace baltoro::cuda
