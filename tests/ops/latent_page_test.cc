// Pages of latents in fp8, and MLA over them on the reference backend.
#include "ops/latent_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "mla_fixture.h"

namespace baltoro {
namespace {

using test::Floats;

const MlaShape kShape{MlaKind::kLatent, 3, 0, 16, 8, 12, 24};

TEST(LatentPage, ReleasedLatentTakes641Bytes) {
  const MlaShape released{MlaKind::kLatent, 96, 0, 128, 64, 128, 512};
  EXPECT_EQ(cache_page_bytes(released, DType::kE4m3), 641 * kBlockTokens);
  EXPECT_EQ(cache_page_bytes(released, DType::kBf16), 1152 * kBlockTokens);
}

TEST(LatentPage, ARowIsRoundedByItsOwnPowerOfTwo) {
  const LatentPage layout(kShape);
  std::vector<std::byte> page(static_cast<std::size_t>(layout.bytes()), std::byte{0xee});
  for (const float gain : {1e-20f, 0.01f, 1.0f, 3e30f}) {
    Floats row = test::random_floats("row", 32, gain);
    write_latent(layout, page.data(), 5, row);
    const Floats read = read_latent(layout, page.data(), 5);
    float largest = 0;
    for (int c = 0; c < 24; ++c)
      largest = std::max(largest, std::fabs(row[static_cast<std::size_t>(c)]));
    for (std::size_t c = 0; c < 24; ++c) {
      // Half a step: 2^-4 of the value, or of the least normal code, below 2^-13 of the largest.
      const float bound = std::max(std::fabs(row[c]), largest * 0x1p-13f) * 0x1p-4f;
      EXPECT_LE(std::fabs(read[c] - row[c]), bound) << c;
    }
    for (std::size_t i = 24; i < 32; ++i) EXPECT_EQ(read[i], round_bf16(row[i])) << i;
    // Read values are their own rounding.
    write_latent(layout, page.data(), 6, read);
    EXPECT_EQ(read_latent(layout, page.data(), 6), read);
  }
  EXPECT_EQ(page[static_cast<std::size_t>(layout.codes_at(4))], std::byte{0xee});
  EXPECT_EQ(page[static_cast<std::size_t>(layout.codes_at(7))], std::byte{0xee});
  EXPECT_EQ(page[static_cast<std::size_t>(layout.side_at(7))], std::byte{0xee});
  EXPECT_EQ(page[static_cast<std::size_t>(layout.scale_at(7))], std::byte{0xee});
}

TEST(LatentPage, ARowThatIsNotFiniteReadsAsNan) {
  const LatentPage layout(kShape);
  std::vector<std::byte> page(static_cast<std::size_t>(layout.bytes()));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Floats row = test::random_floats("row", 32);
    row[7] = bad;
    write_latent(layout, page.data(), 0, row);
    const Floats read = read_latent(layout, page.data(), 0);
    for (std::size_t c = 0; c < 24; ++c) EXPECT_TRUE(std::isnan(read[c])) << c;
    EXPECT_EQ(read[24], round_bf16(row[24]));
  }
}

}  // namespace
}  // namespace baltoro
