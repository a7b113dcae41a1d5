// Goldens of pitfalls P-56 (E8M0 edge bytes), P-57 (nibble order), P-58 (E2M1 encoder) and of the
// specification 11.4.
#include "core/mxfp4.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/rng.h"

namespace baltoro {
namespace {

TEST(E8m0EdgeBytes, SubnormalAndNan) {
  EXPECT_EQ(decode_e8m0(0), 0x1p-127f);
  EXPECT_GT(decode_e8m0(0), 0.0f);
  EXPECT_EQ(decode_e8m0(1), 0x1p-126f);
  EXPECT_EQ(decode_e8m0(127), 1.0f);
  EXPECT_EQ(decode_e8m0(134), 128.0f);
  EXPECT_EQ(decode_e8m0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

std::vector<float> decode(std::vector<std::uint8_t> head, std::uint8_t scale) {
  head.resize(16);
  std::vector<float> out(32);
  decode_mxfp4_row(head.data(), &scale, 32, out.data());
  return out;
}

TEST(NibbleOrder, LowNibbleIsTheEvenColumn) {
  const auto row = decode({0x21, 0x43, 0x65, 0x87, 0xF8}, 127);
  const float expected[10] = {.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.0f, -6};
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(row[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(row[i]), std::signbit(expected[i])) << i;
  }
}

TEST(NibbleOrder, SpecificationVector) {
  const auto row = decode({0x2B, 0xF1, 0x70, 0x89}, 0x7D);
  const float expected[8] = {-0.375f, 0.25f, 0.125f, -1.5f, 0, 1.5f, -0.125f, -0.0f};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(row[i], expected[i]) << i;
}

TEST(E2m1Encoder, RoundTripsEveryCode) {
  for (std::uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(encode_e2m1(decode_e2m1(code)), code);
  }
}

TEST(E2m1Encoder, TiesGoToTheEvenCodeAndLargeValuesSaturate) {
  const float midpoints[7] = {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float nearest[7] = {0, 1, 1, 2, 2, 4, 4};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(decode_e2m1(encode_e2m1(midpoints[i])), nearest[i]);
    EXPECT_EQ(decode_e2m1(encode_e2m1(-midpoints[i])), -nearest[i]);
  }
  EXPECT_EQ(decode_e2m1(encode_e2m1(1e9f)), 6.0f);
  EXPECT_EQ(decode_e2m1(encode_e2m1(-1e9f)), -6.0f);
}

TEST(Mxfp4Block, EncodesWhatItDecodesToItself) {
  std::array<float, 32> values{};
  for (int i = 0; i < 32; ++i) {
    values[static_cast<std::size_t>(i)] = decode_e2m1(static_cast<std::uint8_t>(i % 16)) * 0.125f;
  }
  const Mxfp4Block block = encode_mxfp4(values);
  EXPECT_EQ(block.scale, 124);
  float out[32];
  decode_mxfp4_row(block.packed, &block.scale, 32, out);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], values[i]);
}

// 7.5 saturates to 6 under the OCP scale and is 8 under the next one; many values of 1.6 prefer the
// finer scale.
TEST(Mxfp4Block, TakesTheNextScaleWhereThatErrsLess) {
  std::array<float, 32> values{};
  values[3] = -7.5f;
  EXPECT_EQ(encode_mxfp4(values).scale, 128);
  EXPECT_EQ(encode_mxfp4(values).packed[1] >> 4, 14);     // -4 * 2
  for (std::size_t i = 4; i < 32; ++i) values[i] = 1.6f;  // errors of 0.1 become 0.4
  EXPECT_EQ(encode_mxfp4(values).scale, 127);
  EXPECT_EQ(encode_mxfp4(values).packed[1] >> 4, 15);
}

// The encoder's own groups, and all that the OCP rule can give.
TEST(Mxfp4Block, EncodingItsOwnValuesGivesTheSameBytes) {
  const Philox random(3, 5);
  std::array<float, 32> values{};
  for (std::uint64_t group = 0; group < 2000; ++group) {
    for (std::size_t i = 0; i < 32; ++i) {
      const float u = random.uniform(32 * group + i);
      values[i] = std::ldexp(2 * u - 1, static_cast<int>(group % 250) - 125);
    }
    const Mxfp4Block block = encode_mxfp4(values);
    decode_mxfp4_row(block.packed, &block.scale, 32, values.data());
    const Mxfp4Block again = encode_mxfp4(values);
    ASSERT_EQ(again.scale, block.scale) << group;
    ASSERT_EQ(std::to_array(again.packed), std::to_array(block.packed)) << group;
  }
}

TEST(Mxfp4Block, ZeroGroupIsZero) {
  const std::array<float, 32> values{};
  const Mxfp4Block block = encode_mxfp4(values);
  float out[32];
  decode_mxfp4_row(block.packed, &block.scale, 32, out);
  for (float v : out) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace baltoro
