// MXFP4: E2M1 codes with one E8M0 power-of-two scale per 32 consecutive input columns (OCP MX;
// compressed-tensors packing). Byte j of a row holds element 2j in its low nibble and element 2j+1
// in its high nibble.
#pragma once

#include <cstdint>
#include <span>

#include "core/e8m0.h"

namespace baltoro {

constexpr std::int64_t kMxfp4Group = kMxGroup;

// Magnitudes of the codes 0..7; bit 3 of a code is the sign (8 is -0).
constexpr float kE2m1Magnitude[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

inline float decode_e2m1(std::uint8_t code) {
  const float magnitude = kE2m1Magnitude[code & 7u];
  return (code & 8u) ? -magnitude : magnitude;
}

// The code nearest to value, ties to the even code, magnitudes beyond 6 saturate. value must not be
// NaN.
std::uint8_t encode_e2m1(float value);

// Scale byte and 16 packed bytes of one group of 32 values, which must be finite. The scale is the
// OCP rule's, floor(log2(max|v|)) - 2, or the next one where that has the smaller squared error: the
// largest values then need not saturate at 6. Encoding what a group decodes to gives the same values,
// and the same bytes where a code of 4 or 6 is among them, as after this function or the OCP rule.
struct Mxfp4Block {
  std::uint8_t packed[16];
  std::uint8_t scale;
};
Mxfp4Block encode_mxfp4(std::span<const float, 32> values);

// Decodes one row of `cols` values: packed [cols / 2], scales [cols / 32] -> out [cols].
void decode_mxfp4_row(const std::uint8_t* packed, const std::uint8_t* scales, std::int64_t cols,
                      float* out);

}  // namespace baltoro
