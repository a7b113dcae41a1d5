// E4M3 by f32 arithmetic, on every device: what core/e4m3.h does in double.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

// The exponent of the power of two that brings a row's largest magnitude to 448 or below.
__device__ __forceinline__ int e4m3_row_exponent(float largest) {
  constexpr int kLowest = -120;
  constexpr std::uint32_t kOf448 = 0x600000;  // 1.75
  const std::uint32_t bits = __float_as_uint(largest);
  return max(static_cast<int>(bits >> 23) - 127 - 8 + ((bits & 0x7fffffu) > kOf448 ? 1 : 0),
             kLowest);
}

__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// The nearest e4m3 value, ties to even; |value| <= 448.
__device__ __forceinline__ float round_e4m3(float value) {
  constexpr std::uint32_t kLowestExponent = 127 - 6;
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t exponent = max(bits >> 23 & 0xffu, kLowestExponent);
  // 1.5 times the power of two whose last bit is an eighth of the value's exponent: the sum has no
  // bits below, and the sign of a zero comes back at the end.
  const float whole = __uint_as_float((exponent + 20) << 23 | 0x400000u);
  const float magnitude = __fsub_rn(__fadd_rn(fabsf(value), whole), whole);
  return __uint_as_float(__float_as_uint(magnitude) | (bits & 0x80000000u));
}

}  // namespace baltoro::cuda
