// Codes of e4m3 values and scales of rows.
#include "core/e4m3_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/e4m3.h"

namespace baltoro {
namespace {

TEST(E4m3Code, KnownCodes) {
  EXPECT_EQ(e4m3_code(0.0f), 0x00);
  EXPECT_EQ(e4m3_code(-0.0f), 0x80);
  EXPECT_EQ(e4m3_code(1.0f), 0x38);
  EXPECT_EQ(e4m3_code(-1.5f), 0xbc);
  EXPECT_EQ(e4m3_code(448.0f), 0x7e);
  EXPECT_EQ(e4m3_code(0x1p-6f), 0x08);
  EXPECT_EQ(e4m3_code(7 * 0x1p-9f), 0x07);
}

TEST(E4m3Code, EveryCodeIsThatOfItsValue) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;  // NaN
    const float value = e4m3_value(static_cast<std::uint8_t>(code));
    EXPECT_EQ(round_e4m3(value), value) << code;
    EXPECT_EQ(e4m3_code(value), code);
  }
}

TEST(E4m3Code, ScalesOfRows) {
  for (float largest = 0x1p-110f; largest < 0x1p120f; largest *= 1.37f) {
    const std::uint8_t scale = row_scale(e4m3_row_exponent(largest));
    EXPECT_LE(largest * inverse_scale(scale), 448.0f);
    EXPECT_GT(largest * inverse_scale(scale), 224.0f);
    EXPECT_EQ(scale_value(scale) * inverse_scale(scale), 1.0f);
  }
  const float most = std::numeric_limits<float>::max();
  EXPECT_LE(most * inverse_scale(row_scale(e4m3_row_exponent(most))), 448.0f);
  EXPECT_EQ(scale_value(row_scale(e4m3_row_exponent(0))), 0x1p-120f);
  EXPECT_TRUE(std::isnan(scale_value(kNanRowScale)));
}

// Every code under every scale is a bf16 number: the product that a GPU forms in bf16 is the one
// that the host forms in f32. Only the largest bf16 numbers' own row may round up to infinity.
TEST(E4m3Code, ValuesAreBf16Numbers) {
  for (int scale = row_scale(-120); scale <= row_scale(e4m3_row_exponent(0x1.fep+127f)); ++scale) {
    for (int code = 0; code < 0x7f; ++code) {
      const float value = e4m3_value(static_cast<std::uint8_t>(code)) *
                          scale_value(static_cast<std::uint8_t>(scale));
      EXPECT_EQ(round_bf16(value), value) << scale << " " << code;
    }
  }
}

}  // namespace
}  // namespace baltoro
