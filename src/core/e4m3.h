// E4M3, the 8-bit float of the OCP specification with four bits of exponent (bias 7), three of
// mantissa, no infinity and a largest value of 448; and rows of it that share one power of two.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace baltoro {

constexpr double kE4m3Max = 448;

// The nearest e4m3 value, ties to even; magnitudes beyond 448 saturate, a NaN stays.
inline double round_e4m3(double value) {
  constexpr int kLowestExponent = -6, kMantissaBits = 3;
  if (std::isnan(value)) return value;
  const double magnitude = std::min(std::fabs(value), kE4m3Max);
  const int exponent = magnitude == 0 ? kLowestExponent : std::ilogb(magnitude);
  const double step = std::ldexp(1.0, std::max(exponent, kLowestExponent) - kMantissaBits);
  // At most 16 steps: the addition rounds to whole ones, ties to even, as doubles of that size have
  // no others.
  constexpr double kWhole = 0x1.8p52;
  const double steps = (magnitude / step + kWhole) - kWhole;
  return std::copysign(steps * step, value);
}

// The exponent of the smallest power of two, from 2^-120 on, that brings `largest` (finite) to 448
// or below.
inline int e4m3_row_exponent(double largest) {
  constexpr int kLowest = -120;
  if (largest == 0) return kLowest;
  const int exponent = std::ilogb(largest) - 8;  // of one that brings it to [256, 512)
  return std::max(largest > std::ldexp(kE4m3Max, exponent) ? exponent + 1 : exponent, kLowest);
}

// Rounds a row to e4m3 values times one power of two, the smallest with which none saturates. A row
// with an infinity or a NaN becomes NaN.
inline void round_e4m3_row(std::span<double> row) {
  double largest = 0;
  for (const double value : row) {
    // Not std::max, which drops a NaN.
    if (!(std::fabs(value) <= largest)) largest = std::fabs(value);
    if (std::isnan(largest)) break;
  }
  if (!std::isfinite(largest)) {
    std::fill(row.begin(), row.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const int exponent = e4m3_row_exponent(largest);
  for (double& value : row) {
    value = std::ldexp(round_e4m3(std::ldexp(value, -exponent)), exponent);
  }
}

}  // namespace baltoro
