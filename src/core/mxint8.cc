#include "core/mxint8.h"

#include <algorithm>
#include <cmath>

namespace baltoro {

Mxint8Block encode_mxint8(std::span<const float, kMxGroup> values) {
  float largest = 0.0f;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  int exponent = -127;
  if (largest > 0.0f) exponent = std::max(std::ilogb(largest), -127);
  Mxint8Block block;
  block.scale = static_cast<std::uint8_t>(exponent + 127);
  const float factor = std::ldexp(1.0f, -exponent);
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float code = (values[i] * factor / kMxint8Unit + kShift) - kShift;
    block.codes[i] = static_cast<std::int8_t>(std::clamp(code, -127.0f, 127.0f));
  }
  return block;
}

void decode_mxint8_row(const std::int8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                       float* out) {
  for (std::int64_t i = 0; i < cols; ++i) {
    out[i] = static_cast<float>(codes[i]) * (decode_e8m0(scales[i / kMxGroup]) * kMxint8Unit);
  }
}

}  // namespace baltoro
