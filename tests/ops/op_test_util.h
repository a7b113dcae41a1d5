// Host memory and comparisons that the op tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "core/rng.h"
#include "core/tensor_view.h"
#include "ops/parity/memory.h"
#include "ops/reference/reference_backend.h"

namespace baltoro::test {

using Floats = std::vector<float>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline Floats random_floats(const std::string& name, std::int64_t n, float scale = 1) {
  return random_values(77, name, n, scale);
}

inline ConstTensorView view(const Floats& values, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  return {values.data(), DType::kF32, {rows, cols}};
}

inline TensorView mutable_view(Floats& values, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  return {values.data(), DType::kF32, {rows, cols}};
}

inline WeightView f32_weight(const Floats& values, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  return {values.data(), nullptr, WeightFormat::kF32, rows, cols};
}

inline void expect_near(const Floats& actual, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
  }
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
  }
}

// A wrong result that a known fault gives: every element at least `margin` away would be too much
// to ask, one is enough.
template <typename T>
void expect_not(const std::vector<T>& actual, const std::vector<double>& wrong, double margin) {
  ASSERT_EQ(actual.size(), wrong.size());
  double distance = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    distance = std::max(distance, std::fabs(static_cast<double>(actual[i]) - wrong[i]));
  }
  EXPECT_GT(distance, margin);
}

inline double max_difference(const Floats& a, const Floats& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(difference, d);
  }
  return difference;
}

// Rows [begin, end) of a row-major matrix.
inline Floats rows_of(const Floats& values, std::int64_t cols, std::int64_t begin,
                      std::int64_t end) {
  return {values.begin() + begin * cols, values.begin() + end * cols};
}

// The code and the message of the Error that `call` throws; fails the test where it throws none.
template <typename Call>
std::string error_of(Call&& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

inline std::unique_ptr<Backend> reference_f32() {
  return make_reference_backend(Activations::kF32);
}
inline std::unique_ptr<Backend> reference_bf16() {
  return make_reference_backend(Activations::kBf16);
}

}  // namespace baltoro::test
