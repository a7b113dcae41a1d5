// E4M3 against its table of codes, and rows that share a power of two.
#include "core/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace baltoro {
namespace {

// The value of the code s eeee mmm; 0x7f and 0xff are NaN.
double decode(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

TEST(E4m3, EveryCodeIsAValueAndMiddlesGoToTheEvenOne) {
  EXPECT_EQ(decode(0x7e), kE4m3Max);
  for (int code = 0; code < 0x7f; ++code) {
    const double value = decode(code);
    EXPECT_EQ(round_e4m3(value), value) << code;
    EXPECT_EQ(round_e4m3(-value), -value) << code;
    if (code == 0x7e) continue;
    const double next = decode(code + 1), middle = (value + next) / 2;
    EXPECT_EQ(round_e4m3(middle), code % 2 == 0 ? value : next) << code;
    EXPECT_EQ(round_e4m3(std::nextafter(middle, 0.0)), value) << code;
    EXPECT_EQ(round_e4m3(std::nextafter(middle, 1e9)), next) << code;
  }
}

TEST(E4m3, SaturatesAndKeepsZerosAndNans) {
  EXPECT_EQ(round_e4m3(449), 448);
  EXPECT_EQ(round_e4m3(-1e30), -448);
  EXPECT_EQ(round_e4m3(std::numeric_limits<double>::infinity()), 448);
  EXPECT_TRUE(std::signbit(round_e4m3(-0.0)));
  EXPECT_TRUE(std::isnan(round_e4m3(std::numeric_limits<double>::quiet_NaN())));
}

std::vector<double> rounded(std::vector<double> row) {
  round_e4m3_row(row);
  return row;
}

TEST(E4m3Row, TheLargestValueNeverSaturates) {
  EXPECT_EQ(rounded({448, 1, 0.3}), (std::vector<double>{448, 1, 0.3125}));
  // The next power of two: steps of 64 at the top, 2^-8 at the bottom.
  EXPECT_EQ(rounded({449, 0x3p-9, -479}), (std::vector<double>{448, 0x1p-7, -480}));
  EXPECT_EQ(rounded({0.0, -0.0}), (std::vector<double>{0, 0}));
}

TEST(E4m3Row, APowerOfTwoMovesNothing) {
  const std::vector<double> row{1.7, -0.013, 0, 3.9e-6, -2.2, 0.4};
  const std::vector<double> base = rounded(row);
  EXPECT_NE(base, row);
  for (const int exponent : {-60, -9, 1, 90}) {
    std::vector<double> scaled = row, expected = base;
    for (double& value : scaled) value = std::ldexp(value, exponent);
    for (double& value : expected) value = std::ldexp(value, exponent);
    EXPECT_EQ(rounded(scaled), expected) << exponent;
  }
}

TEST(E4m3Row, TinyRowsLoseTheirLastBitsFirst) {
  // 2^-120 is the smallest step but for the subnormal 2^-9 of it.
  EXPECT_EQ(rounded({0x1.3p-129, 0x1p-131}), (std::vector<double>{0x1p-129, 0}));
}

TEST(E4m3Row, OneValueThatIsNotFiniteMakesTheRowNan) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const double value : rounded({1, bad, 2})) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace baltoro
