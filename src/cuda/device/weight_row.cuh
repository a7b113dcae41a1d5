// One element of a stored weight, exactly as f32: BF16, F16, F32, MXFP4, MXINT8 at any alignment.
// For the generic kernels; fast ones read whole vectors of one format.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "core/tensor_view.h"
#include "cuda/device/activation.cuh"

namespace baltoro::cuda {

// 2^(e - 127); 255 is NaN.
__device__ __forceinline__ float e8m0_to_f32(std::uint8_t e) {
  if (e == 0xff) return __int_as_float(0x7fc00000);
  return e == 0 ? __int_as_float(0x00400000) : __int_as_float(static_cast<int>(e) << 23);
}

// e2m1: 0 .5 1 1.5 2 3 4 6, bit 3 is the sign.
__device__ __forceinline__ float e2m1_to_f32(std::uint32_t code) {
  const std::uint32_t magnitude = code & 7u;
  const float value = magnitude < 2u
                          ? 0.5f * static_cast<float>(magnitude)
                          : __int_as_float(static_cast<int>(((magnitude >> 1) + 126u) << 23 |
                                                            (magnitude & 1u) << 22));
  return (code & 8u) != 0 ? -value : value;
}

template <typename T>
__device__ __forceinline__ T load_unaligned(const void* address, std::int64_t index) {
  T value;
  const auto* bytes = static_cast<const unsigned char*>(address) + index * sizeof(T);
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Element `col` of row `row`.
__device__ __forceinline__ float weight_at(const WeightView& w, std::int64_t row,
                                           std::int64_t col) {
  const std::int64_t i = row * w.cols + col;
  switch (w.format) {
    case WeightFormat::kF32:
      return static_cast<const float*>(w.data)[i];
    case WeightFormat::kBf16:
      return __bfloat162float(static_cast<const bf16*>(w.data)[i]);
    case WeightFormat::kF16:
      return __half2float(static_cast<const __half*>(w.data)[i]);
    case WeightFormat::kMxint8:
      // An element counts in 64ths of the scale.
      return 0x1p-6f * static_cast<float>(static_cast<const std::int8_t*>(w.data)[i]) *
             e8m0_to_f32(w.scales[row * (w.cols / kMxGroup) + col / kMxGroup]);
    case WeightFormat::kMxfp4: {
      const std::uint8_t pair = static_cast<const std::uint8_t*>(w.data)[i / 2];
      return e2m1_to_f32(col % 2 == 0 ? pair & 15u : pair >> 4) *
             e8m0_to_f32(w.scales[row * (w.cols / kMxGroup) + col / kMxGroup]);
    }
  }
  return 0;
}

}  // namespace baltoro::cuda
