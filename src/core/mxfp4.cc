#include "core/mxfp4.h"

#include <algorithm>
#include <cmath>

namespace baltoro {

std::uint8_t encode_e2m1(float value) {
  // Midpoints between neighbouring magnitudes; a tie goes to the even code, so odd lower codes give
  // way at equality.
  constexpr float kMidpoint[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float magnitude = std::fabs(value);
  std::uint8_t code = 0;
  for (std::uint8_t lower = 0; lower < 7; ++lower) {
    const bool above = (lower & 1) ? magnitude >= kMidpoint[lower] : magnitude > kMidpoint[lower];
    if (above) code = static_cast<std::uint8_t>(lower + 1);
  }
  return std::signbit(value) ? static_cast<std::uint8_t>(code | 8u) : code;
}

Mxfp4Block encode_mxfp4(std::span<const float, 32> values) {
  float largest = 0.0f;
  for (float v : values) largest = std::max(largest, std::fabs(v));
  int exponent = -127;
  if (largest > 0.0f) exponent = std::clamp(std::ilogb(largest) - 2, -127, 127);
  Mxfp4Block block;
  block.scale = static_cast<std::uint8_t>(exponent + 127);
  for (int i = 0; i < 16; ++i) {
    const std::uint8_t low =
        encode_e2m1(std::ldexp(values[static_cast<std::size_t>(2 * i)], -exponent));
    const std::uint8_t high =
        encode_e2m1(std::ldexp(values[static_cast<std::size_t>(2 * i + 1)], -exponent));
    block.packed[i] = static_cast<std::uint8_t>(low | (high << 4));
  }
  return block;
}

void decode_mxfp4_row(const std::uint8_t* packed, const std::uint8_t* scales, std::int64_t cols,
                      float* out) {
  for (std::int64_t i = 0; i < cols; i += 2) {
    const float scale = decode_e8m0(scales[i / kMxfp4Group]);
    out[i] = decode_e2m1(packed[i / 2] & 15u) * scale;
    out[i + 1] = decode_e2m1(packed[i / 2] >> 4) * scale;
  }
}

}  // namespace baltoro
