// MXFP4 in registers: eight e2m1 codes of a 32-bit word to bf16 pairs, scaled by their e8m0 power
// of two, all exactly.
#pragma once

#include <cstdint>

#include "cuda/device/bf16x2.cuh"

namespace baltoro::cuda {

// Scaled weights carry this factor less, so that a scale up to 2^33 fits the multiplier of a code
// that lies in the exponent's lowest bits. The product's user multiplies by kMxfp4Unscale.
constexpr int kMxfp4Shift = 32;
constexpr float kMxfp4Unscale = 4294967296.0f;  // 2^kMxfp4Shift

// Position in a word's pairs of the elements 0..7: a pair holds elements i and i + 4, which lie 16
// bits apart.
__host__ __device__ constexpr int mxfp4_position(int element) {
  return (element & ~7) | (element & 3) << 1 | (element >> 2 & 1);
}

// Two equal bf16: 2^(e - 127) times the 2^126 that takes a code from the lowest exponent bits to
// its value, times 2^-kMxfp4Shift. Above the range, and for the NaN 255, infinity.
__device__ __forceinline__ std::uint32_t mxfp4_multiplier(std::uint32_t e) {
  return min(e + 126u - kMxfp4Shift, 255u) * 0x00800080u;
}

// Elements (0, 4), (1, 5), (2, 6), (3, 7) of the word.
__device__ __forceinline__ void decode_mxfp4(std::uint32_t word, std::uint32_t multiplier,
                                             std::uint32_t (&pairs)[4]) {
  // A code seem becomes the bf16 s000'0000'eem0'0000: sign on top, magnitude at bits 6 to 8.
  constexpr std::uint32_t kSign = 0x80008000u, kMagnitude = 0x01c001c0u;
  const std::uint32_t high = word >> 6;
  pairs[3] = bf16x2_mul((word & kSign) | (high & kMagnitude), multiplier);
  pairs[2] = bf16x2_mul(((word << 4) & kSign) | ((high << 4) & kMagnitude), multiplier);
  pairs[1] = bf16x2_mul(((word << 8) & kSign) | ((word << 2) & kMagnitude), multiplier);
  pairs[0] = bf16x2_mul(((word << 12) & kSign) | ((word << 6) & kMagnitude), multiplier);
}

}  // namespace baltoro::cuda
