#include "core/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace baltoro {
namespace {

TEST(Bf16Rounding, TiesGoToEven) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // halfway, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // halfway, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(-0.0f), 0x8000);
}

TEST(Bf16Rounding, NanStaysNanAndOverflowIsInfinite) {
  EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(std::isnan(round_bf16(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(round_bf16(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
}

TEST(Bf16Rounding, EveryBf16ValueIsItsOwnRounding) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = bf16_to_f32(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_to_bf16(value), bits);
  }
}

TEST(HalfPrecision, SubnormalNormalAndInfinite) {
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0xc500), -5.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_TRUE(std::isinf(f16_to_f32(0x7c00)));
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7e00)));
}

}  // namespace
}  // namespace baltoro
