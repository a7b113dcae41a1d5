// Element types of tensors and their conversions. Device-neutral: no include beyond the standard
// library.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace baltoro {

// kE4m3 is the type of cached latents alone (core/e4m3_code.h); no tensor of a file has it.
enum class DType : std::uint8_t { kF32, kBf16, kF16, kU8, kI32, kI8, kE4m3 };

// Bytes of one element.
constexpr std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kU8:
    case DType::kI8:
    case DType::kE4m3:
      return 1;
  }
  return 0;
}

// The name in a safetensors header: "F32", "BF16", ...
constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kU8:
      return "U8";
    case DType::kI32:
      return "I32";
    case DType::kI8:
      return "I8";
    case DType::kE4m3:
      return "F8_E4M3";
  }
  return "?";
}

inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN, overflow gives infinity.
inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// rne16 of the specification: the nearest bf16 value, as f32.
inline float round_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }

// IEEE half precision, subnormals and infinities included.
inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

}  // namespace baltoro
