// The peak functions do the arithmetic that they count.
#include "cpu/peak.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "cpu/dispatch.h"

namespace baltoro::cpu {
namespace {

constexpr std::int64_t kIterations = 7;

struct PeakRun {
  alignas(64) std::array<float, kPeakFloats> before, after;
  std::int64_t flops = 0;
  std::int64_t changed = 0;

  explicit PeakRun(std::int64_t (*peak)(std::int64_t, float*)) {
    for (std::size_t i = 0; i < before.size(); ++i)
      before[i] = 0.25f + 1e-3f * static_cast<float>(i);
    after = before;
    flops = peak(kIterations, after.data());
    for (std::size_t i = 0; i < after.size(); ++i) changed += after[i] != before[i];
  }
};

TEST(Peak, F32CountsEveryMultiplyAdd) {
  for (const LeafTable* table : supported_tables()) {
    const PeakRun run(table->peak_f32);
    EXPECT_EQ(run.flops, 2 * kIterations * run.changed) << table->name;
    for (std::size_t i = 0; i < static_cast<std::size_t>(run.changed); ++i) {
      float x = run.before[i];
      for (int n = 0; n < kIterations; ++n) x = x * run.before[0] + run.before[1];
      ASSERT_NEAR(run.after[i], x, 1e-6) << table->name << " " << i;
    }
  }
}

TEST(Peak, Bf16DoesAtLeastAsMuchAnIteration) {
  for (const LeafTable* table : supported_tables()) {
    const PeakRun run(table->peak_bf16);
    EXPECT_GT(run.changed, 0) << table->name;
    EXPECT_GE(run.flops, 2 * kIterations * run.changed) << table->name;
    for (const float x : run.after) ASSERT_TRUE(std::isfinite(x)) << table->name;
  }
}

TEST(Peak, SumsEveryValue) {
  std::array<float, 256> x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (const LeafTable* table : supported_tables()) {
    EXPECT_EQ(table->sum(x.data(), 256), 255 * 128) << table->name;
    EXPECT_EQ(table->sum(x.data(), 128), 127 * 64) << table->name;
  }
}

TEST(Peak, IsPlausible) {
  const double rate = measure_cpu_peak({}, 1, Activations::kBf16);
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e14);
}

}  // namespace
}  // namespace baltoro::cpu
