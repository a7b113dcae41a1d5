// The shared scale of the OCP microscaling (MX) formats: one E8M0 power of two for a group of 32
// consecutive columns of a row.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace baltoro {

constexpr std::int64_t kMxGroup = 32;

// 2^(byte - 127); byte 0 is the subnormal 2^-127, byte 255 is NaN.
inline float decode_e8m0(std::uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  if (byte == 0) return std::bit_cast<float>(0x00400000u);
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) << 23);
}

}  // namespace baltoro
