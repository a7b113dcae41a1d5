// The calibration's points: each runs what it says, on memory that goes round.
#include "measure/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "baltoro/error.h"
#include "cpu/backend.h"

namespace baltoro {
namespace {

const RepeatOptions kQuick{
    .repeats = 1, .max_dropped = 0, .allow_noise = true, .sample_seconds = 0};

std::unique_ptr<Backend> backend() { return make_cpu_backend({.num_threads = 1, .isa = {}}); }

TEST(OpPoints, NamesAreUnique) {
  std::set<std::string> names;
  for (const OpPoint& point : op_points(*backend())) {
    EXPECT_TRUE(names.insert(point.group + " " + point.name).second) << point.name;
  }
}

TEST(OpPoints, EveryGroupStandsTogether) {
  const std::vector<std::string> groups = calibration_groups();
  EXPECT_EQ(std::set<std::string>(groups.begin(), groups.end()).size(), groups.size());
  EXPECT_EQ(groups.front(), plan::kStreamGroup);
}

TEST(RotatingMemory, GoesRoundInTheWorkingSet) {
  const auto cpu = backend();
  RotatingMemory memory(*cpu);
  memory.set_working_set(4096);
  const WeightView first = memory.weight(WeightFormat::kMxint8, 32, 64);
  const WeightView second = memory.weight(WeightFormat::kMxint8, 32, 64);
  const WeightView third = memory.weight(WeightFormat::kMxint8, 32, 64);
  EXPECT_NE(first.data, second.data);
  EXPECT_NE(first.scales, second.scales);
  EXPECT_EQ(first.data, third.data);
  EXPECT_THROW(memory.items(4097), Error);
}

TEST(RotatingMemory, RenewsWhatAnOpReads) {
  const auto cpu = backend();
  RotatingMemory memory(*cpu);
  memory.set_working_set(4096);
  const TensorView x = memory.activations(2, 64);
  std::fill_n(x.f32(), 128, 0.0f);
  memory.renew_activations();
  for (int i = 0; i < 128; ++i) EXPECT_NE(x.f32()[i], 0.0f) << i;
}

TEST(RotatingMemory, HoldsFiniteValuesOnly) {
  const auto cpu = backend();
  RotatingMemory memory(*cpu);
  memory.set_working_set(1 << 20);
  const auto* items = reinterpret_cast<const float*>(memory.items(1 << 20));
  for (std::size_t i = 0; i < (1 << 20) / sizeof(float); ++i) {
    ASSERT_LE(std::fabs(items[i]), 1.0f) << i;
    ASSERT_GE(std::fabs(items[i]), 1.0f / 128) << i;
  }
}

// The smallest point of each group, once: the work of its cost function. (Times are for a quiet
// machine.)
TEST(PointTimer, EachGroupHasAPointThatRuns) {
  const auto cpu = backend();
  std::vector<OpPoint> points;
  for (const std::string& group : calibration_groups()) {
    for (const OpPoint& point : op_points(*backend())) {
      if (point.group != group || point.working_set > 64 << 20) continue;
      points.push_back(point);
      break;
    }
  }
  std::set<std::string> kernels;
  PointTimer timer(*cpu);
  for (const OpPoint& point : points) {
    const TimedPoint timed = timer.time(point, kQuick);
    EXPECT_EQ(timed.point.group, point.group);
    EXPECT_GT(timed.point.sample.work.bytes, 0) << timed.point.kernel;
    kernels.insert(timed.point.kernel);
  }
  EXPECT_THAT(kernels, ::testing::IsSupersetOf({"linear bf16 row", "glu_mlp bf16 row",
                                                "expert_mlp mxfp4", "route", "mix_norm",
                                                "kda_mix generated", "mla_decode", "mla_prefill"}));
}

TEST(CalibrationKey, HasBackendThreadsAndBuild) {
  const plan::CalibrationKey key = calibration_key(*backend());
  EXPECT_EQ(key.threads, 1);
  EXPECT_EQ(key.activations, "bf16");
  EXPECT_THAT(key.backend, ::testing::StartsWith("cpu/"));
  EXPECT_FALSE(key.build.empty());
}

}  // namespace
}  // namespace baltoro
