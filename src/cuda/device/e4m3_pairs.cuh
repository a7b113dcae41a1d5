// Rows of e4m3 codes (core/e4m3_code.h) to bf16 pairs, exactly.
#pragma once

#include <cstdint>

#include "cuda/device/bf16x2.cuh"

namespace baltoro::cuda {

// Two equal bf16: the power of two of a row, NaN for a row that is not finite.
__device__ __forceinline__ std::uint32_t e4m3_multiplier(std::uint32_t scale) {
  return scale == 255 ? 0x7fc07fc0u : scale * 0x00800080u;
}

// Codes 0 and 1, then 2 and 3, of the word.
__device__ __forceinline__ uint2 widen_e4m3(std::uint32_t word, std::uint32_t multiplier) {
  // A code seeeemmm becomes the bf16 s0000eee'emmm0000, which is 2^-120 of its value.
  constexpr std::uint32_t kSign = 0x80008000u, kMagnitude = 0x07f007f0u;
  constexpr std::uint32_t kTwoTo120 = 0x7b807b80u;
  const std::uint32_t low = __byte_perm(word, 0, 0x1404), high = __byte_perm(word, 0, 0x3424);
  const std::uint32_t a = bf16x2_mul((low & kSign) | (low >> 4 & kMagnitude), kTwoTo120);
  const std::uint32_t b = bf16x2_mul((high & kSign) | (high >> 4 & kMagnitude), kTwoTo120);
  return {bf16x2_mul(a, multiplier), bf16x2_mul(b, multiplier)};
}

// The same of eight codes.
__device__ __forceinline__ uint4 widen_e4m3(uint2 words, std::uint32_t multiplier) {
  const uint2 low = widen_e4m3(words.x, multiplier), high = widen_e4m3(words.y, multiplier);
  return {low.x, low.y, high.x, high.y};
}

}  // namespace baltoro::cuda
