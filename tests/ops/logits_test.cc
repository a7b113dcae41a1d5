// The sampler's loops against plain ones.
#include "ops/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace baltoro {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> row(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size) + 1);
  std::normal_distribution<float> normal(0, 5);
  std::vector<float> values(size);
  for (float& x : values) x = normal(random);
  return values;
}

TEST(LogitLoops, AgreeWithPlainOnes) {
  for (std::size_t size = 0; size < 70; ++size) {
    std::vector<float> values = row(size);
    float max = -kInfinity;
    double sum = 0;
    for (const float x : values) {
      max = std::max(max, x);
      sum += static_cast<double>(x);
    }
    EXPECT_EQ(largest(values), max) << size;
    EXPECT_NEAR(sum_of(values), sum, 1e-9) << size;
    EXPECT_FALSE(has_nan(values));
    for (std::size_t i = 0; i < size; ++i) {
      const float before = std::exchange(values[i], std::numeric_limits<float>::quiet_NaN());
      EXPECT_TRUE(has_nan(values)) << i;
      values[i] = kInfinity;
      EXPECT_EQ(largest(values), kInfinity) << i;
      values[i] = before;
    }
  }
  EXPECT_EQ(largest(std::vector<float>(9, -kInfinity)), -kInfinity);
}

TEST(LogitLoops, WeightsAreExponentials) {
  std::vector<float> values;
  for (float x = 3; x > -100; x -= 0.013f) values.push_back(x);
  values.insert(values.end(), {-1e30f, -kInfinity, 3.0f});
  for (const float temperature : {1.0f, 0.3f, 2.0f}) {
    std::vector<float> weights(values.size(), -1);
    exp_below(values, 3, temperature, weights.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double exact = std::exp(static_cast<double>((values[i] - 3) / temperature));
      const double least = std::exp(-87.0);
      EXPECT_NEAR(weights[i], exact, 3e-7 * exact + 1.01 * least) << values[i];
      EXPECT_GE(weights[i], 0) << values[i];
      EXPECT_TRUE(exact > 0.99 * least || weights[i] == 0) << values[i];
    }
    EXPECT_EQ(weights.front(), 1);
    EXPECT_EQ(weights.back(), 1);
  }
}

}  // namespace
}  // namespace baltoro
