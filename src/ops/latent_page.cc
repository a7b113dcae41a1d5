#include "ops/latent_page.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/dtype.h"
#include "core/e4m3.h"

namespace baltoro {
namespace {

// NaN where a value is none.
float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

}  // namespace

void write_latent(const LatentPage& layout, std::byte* page, std::int64_t token,
                  std::span<const float> row) {
  const auto rank = static_cast<std::size_t>(layout.rank);
  const float largest = largest_magnitude(row.first(rank));
  const std::uint8_t scale =
      std::isfinite(largest) ? row_scale(e4m3_row_exponent(largest)) : kNanRowScale;
  const float inverse = inverse_scale(scale);
  for (std::size_t c = 0; c < rank; ++c) {
    const float value = scale == kNanRowScale ? 0.0f : row[c] * inverse;
    page[static_cast<std::size_t>(layout.codes_at(token)) + c] =
        std::byte{e4m3_code(static_cast<float>(round_e4m3(value)))};
  }
  page[layout.scale_at(token)] = std::byte{scale};
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout.side); ++i) {
    const std::uint16_t half = f32_to_bf16(row[rank + i]);
    std::memcpy(page + layout.side_at(token) + 2 * i, &half, sizeof(half));
  }
}

std::vector<float> read_latent(const LatentPage& layout, const std::byte* page,
                               std::int64_t token) {
  const float scale = scale_value(static_cast<std::uint8_t>(page[layout.scale_at(token)]));
  std::vector<float> row;
  for (std::int64_t c = 0; c < layout.rank; ++c) {
    row.push_back(e4m3_value(static_cast<std::uint8_t>(page[layout.codes_at(token) + c])) * scale);
  }
  for (std::int64_t i = 0; i < layout.side; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, page + layout.side_at(token) + 2 * i, sizeof(half));
    row.push_back(bf16_to_f32(half));
  }
  return row;
}

}  // namespace baltoro
