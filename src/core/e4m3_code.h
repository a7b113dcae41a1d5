// The bytes of e4m3 values (core/e4m3.h), and the powers of two of rows of them as bytes. Also
// compiled for GPUs.
#pragma once

#include <bit>
#include <cstdint>

namespace baltoro {

// `value` is one of e4m3, finite.
constexpr std::uint8_t e4m3_code(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t code =
      magnitude < 0x3c800000u  // 2^-6, below which values are multiples of 2^-9
          ? static_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p9f)
          : (magnitude >> 20) - (120u << 3);
  return static_cast<std::uint8_t>((bits >> 24 & 0x80u) | code);
}

constexpr float e4m3_value(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fu;
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : std::bit_cast<float>((magnitude + (120u << 3)) << 20);
  return (code & 0x80u) != 0 ? -value : value;
}

// The exponent of a row's power of two, at least -120, as a byte; and the byte of a row that is not
// finite, which reads as NaN.
constexpr std::uint8_t kNanRowScale = 255;
constexpr std::uint8_t row_scale(int exponent) { return static_cast<std::uint8_t>(exponent + 127); }

// The power of two of a byte, and its inverse; NaN and 0 of kNanRowScale.
constexpr float scale_value(std::uint8_t scale) {
  return std::bit_cast<float>(scale == kNanRowScale ? 0x7fc00000u
                                                    : static_cast<std::uint32_t>(scale) << 23);
}
constexpr float inverse_scale(std::uint8_t scale) {
  return scale == kNanRowScale
             ? 0.0f
             : std::bit_cast<float>((254u - static_cast<std::uint32_t>(scale)) << 23);
}

}  // namespace baltoro
