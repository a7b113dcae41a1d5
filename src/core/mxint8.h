// MXINT8: 8-bit integers with one E8M0 power-of-two scale per 32 consecutive input columns (OCP MX
// v1.0, sections 5.3.4 and 6.3). An element stands for code * 2^-6, so a value is
// code * 2^(scale - 133): at most seven significant bits, exact in bf16.
#pragma once

#include <cstdint>
#include <span>

#include "core/e8m0.h"

namespace baltoro {

// 2^-6, the implied scale of an element.
constexpr float kMxint8Unit = 0x1p-6f;

// One group of 32 values. The shared exponent is floor(log2(max|v|)), codes are rounded to nearest
// with ties to even and lie within [-127, 127]; the largest has a magnitude of at least 64, so that
// encoding what a group decodes to gives the group again. A group of zeros has scale 0. The values
// must be finite.
struct Mxint8Block {
  std::int8_t codes[kMxGroup];
  std::uint8_t scale;
};
Mxint8Block encode_mxint8(std::span<const float, kMxGroup> values);

// Decodes one row of `cols` values: codes [cols], scales [cols / 32] -> out [cols]. Any code, -128
// too.
void decode_mxint8_row(const std::int8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                       float* out);

}  // namespace baltoro
