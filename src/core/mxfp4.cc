#include "core/mxfp4.h"

#include <algorithm>
#include <cmath>

namespace baltoro {

namespace {

// The distance of neighbouring magnitudes around a magnitude of at most 6.
inline float step_at(float magnitude) {
  return magnitude < 2.0f ? 0.5f : (magnitude < 4.0f ? 1.0f : 2.0f);
}

// The nearest magnitude. All codes of one step are multiples of it, and the even multiples are the
// even codes, so that the addition's rounding (to nearest, ties to even) is E2M1's.
inline float nearest_magnitude(float magnitude) {
  const float bounded = std::min(magnitude, 6.0f);
  const float shift = 12582912.0f * step_at(bounded);  // 1.5 * 2^23: an ulp is one step
  return (bounded + shift) - shift;
}

inline std::uint8_t code_of(float magnitude, bool negative) {
  const float code = magnitude < 2.0f   ? 2.0f * magnitude
                     : magnitude < 4.0f ? magnitude + 2.0f
                                        : 0.5f * magnitude + 4.0f;
  return static_cast<std::uint8_t>(static_cast<int>(code) | (negative ? 8 : 0));
}

// Sum of the squared errors of a group in units of 4^exponent. Eight running sums, so that the
// compiler may take them together.
float squared_error(std::span<const float, 32> values, int exponent) {
  const float factor = std::ldexp(1.0f, -exponent);
  float sums[8] = {};
  for (std::size_t i = 0; i < 32; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const float magnitude = std::fabs(values[i + lane]) * factor;
      const float error = nearest_magnitude(magnitude) - magnitude;
      sums[lane] += error * error;
    }
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

std::uint8_t encode_e2m1(float value) {
  return code_of(nearest_magnitude(std::fabs(value)), std::signbit(value));
}

Mxfp4Block encode_mxfp4(std::span<const float, 32> values) {
  float largest = 0.0f;
  for (float v : values) largest = std::max(largest, std::fabs(v));
  int exponent = -127;
  if (largest > 0.0f) exponent = std::max(std::ilogb(largest) - 2, -127);
  if (4.0f * squared_error(values, exponent + 1) < squared_error(values, exponent)) ++exponent;
  Mxfp4Block block;
  block.scale = static_cast<std::uint8_t>(exponent + 127);
  const float factor = std::ldexp(1.0f, -exponent);
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint8_t low = encode_e2m1(values[2 * i] * factor);
    const std::uint8_t high = encode_e2m1(values[2 * i + 1] * factor);
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
