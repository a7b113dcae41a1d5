#include "ops/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace baltoro {
namespace {

constexpr std::size_t kLanes = 8;

// exp(x) for x in [-87, 0]: 2^n times a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2].
float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts; the first has few enough bits that n times it is exact.
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number
  const float shifted = x * kLog2E + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The low bits of `shifted` are n.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

}  // namespace

bool has_nan(std::span<const float> row) noexcept {
  int found = 0;
  for (const float x : row) found |= x != x ? 1 : 0;
  return found != 0;
}

float largest(std::span<const float> row) noexcept {
  float best[kLanes];
  for (float& lane : best) lane = -std::numeric_limits<float>::infinity();
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) best[k] = row[i + k] > best[k] ? row[i + k] : best[k];
  }
  for (; i < row.size(); ++i) best[0] = row[i] > best[0] ? row[i] : best[0];
  for (const float lane : best) best[0] = lane > best[0] ? lane : best[0];
  return best[0];
}

void exp_below(std::span<const float> row, float max, float temperature, float* weights) noexcept {
  constexpr float kLeast = -87;
  const float least = exp_of(kLeast);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // Of numbers at or below zero, the larger one has the smaller bits: no branch is left.
    const auto bits = std::bit_cast<std::uint32_t>((row[i] - max) / temperature);
    const float x = std::bit_cast<float>(std::min(bits, std::bit_cast<std::uint32_t>(kLeast)));
    weights[i] = exp_of(x) - least;
  }
}

double sum_of(std::span<const float> row) noexcept {
  double parts[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) parts[k] += static_cast<double>(row[i + k]);
  }
  for (; i < row.size(); ++i) parts[0] += static_cast<double>(row[i]);
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace baltoro
