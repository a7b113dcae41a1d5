// MXINT8 after OCP MX v1.0: an element is code * 2^-6, a value that times 2^(scale - 127).
#include "core/mxint8.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/dtype.h"

namespace baltoro {
namespace {

using Group = std::array<float, 32>;

float decode(std::int8_t code, std::uint8_t scale) {
  Group out;
  std::array<std::int8_t, 32> codes{};
  codes[31] = code;
  decode_mxint8_row(codes.data(), &scale, 32, out.data());
  if (scale != 255) {
    EXPECT_EQ(out[0], 0.0f);
  }
  return out[31];
}

TEST(Mxint8Decoder, ElementsCarryTheImpliedScaleOfTheStandard) {
  EXPECT_EQ(decode(64, 127), 1.0f);
  EXPECT_EQ(decode(-64, 127), -1.0f);
  EXPECT_EQ(decode(127, 127), 1.984375f);  // the standard's largest, 1 63/64
  EXPECT_EQ(decode(-128, 127), -2.0f);
  EXPECT_EQ(decode(1, 127), 0.015625f);
  EXPECT_EQ(decode(-7, 133), -7.0f);
  EXPECT_EQ(decode(64, 0), 0x1p-127f);
  EXPECT_EQ(decode(1, 0), 0x1p-133f);
  EXPECT_EQ(decode(64, 254), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode(1, 255)));
}

TEST(Mxint8Decoder, EveryValueIsExactInBf16) {
  for (int scale = 0; scale < 255; ++scale) {
    for (int code = -128; code < 128; ++code) {
      const float value = decode(static_cast<std::int8_t>(code), static_cast<std::uint8_t>(scale));
      ASSERT_EQ(round_bf16(value), value) << code << " scale " << scale;
    }
  }
}

TEST(Mxint8Encoder, ScaleRoundingAndSaturation) {
  Group values{};
  values[0] = 1.0f;  // exponent 0, unit 1/64
  values[1] = 2.5f / 64;
  values[2] = 3.5f / 64;
  values[3] = -0.5f / 64;
  const Mxint8Block block = encode_mxint8(values);
  EXPECT_EQ(block.scale, 127);
  EXPECT_EQ(block.codes[0], 64);
  EXPECT_EQ(block.codes[1], 2);  // ties to even
  EXPECT_EQ(block.codes[2], 4);
  EXPECT_EQ(block.codes[3], 0);
  values[0] = -1.9999f;  // rounds to -128, which is left out
  EXPECT_EQ(encode_mxint8(values).scale, 127);
  EXPECT_EQ(encode_mxint8(values).codes[0], -127);
}

TEST(Mxint8Encoder, ZerosAndTheEndsOfTheRange) {
  EXPECT_EQ(encode_mxint8(Group{}).scale, 0);
  Group values{};
  values[5] = 0x1p-130f;  // below the smallest scale, still a multiple of its unit
  EXPECT_EQ(encode_mxint8(values).scale, 0);
  EXPECT_EQ(encode_mxint8(values).codes[5], 8);
  values[5] = 0x1.fffffep127f;
  EXPECT_EQ(encode_mxint8(values).scale, 254);
  EXPECT_EQ(encode_mxint8(values).codes[5], 127);
}

TEST(Mxint8Encoder, GivesAGroupThatItDecodedAgain) {
  Mxint8Block block;
  for (int i = 0; i < 32; ++i) block.codes[i] = static_cast<std::int8_t>(4 * i - 62);
  block.codes[9] = 64;
  block.scale = 118;
  Group values;
  decode_mxint8_row(block.codes, &block.scale, 32, values.data());
  const Mxint8Block again = encode_mxint8(values);
  EXPECT_EQ(again.scale, block.scale);
  EXPECT_EQ(std::to_array(again.codes), std::to_array(block.codes));
}

}  // namespace
}  // namespace baltoro
