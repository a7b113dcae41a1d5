// MXFP4 codes in registers as fp16, in half the instructions that bf16 takes: a code fills the upper
// byte of an fp16 alone, so that four are placed at once.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

// The fp16 of a code is its value times 2^-14: codes lie in the lowest exponent bits.
constexpr float kHalfCodeUnscale = 16384.0f;

// Elements (0, 4), (1, 5), (2, 6), (3, 7) of the word, without their scale.
__device__ __forceinline__ void decode_codes(std::uint32_t word, std::uint32_t (&pairs)[4]) {
  // A code seem becomes the byte s000eem0.
  constexpr std::uint32_t kSign = 0x80808080u, kMagnitude = 0x0e0e0e0eu, kUpper = 0xff00ff00u;
  const std::uint32_t odd = (word & kSign) | (word >> 3 & kMagnitude);
  const std::uint32_t even = (word << 4 & kSign) | (word << 1 & kMagnitude);
  pairs[0] = __byte_perm(even, 0, 0x2404);
  pairs[1] = __byte_perm(odd, 0, 0x2404);
  pairs[2] = even & kUpper;
  pairs[3] = odd & kUpper;
}

}  // namespace baltoro::cuda
