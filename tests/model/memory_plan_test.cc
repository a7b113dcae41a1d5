// Which weights stay in memory under which limit: each plan fits its limit, and what does not fit is
// refused with a number that does.
#include "model/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/test_files.h"
#include "paths.h"

namespace baltoro {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kWorking = 1000;

// Trunk 50 + 100 + 4 * 40 = 310; 2 of 8 experts of 10 in each of 4 layers = 320. In all 630.
WeightSizes sizes() {
  return {.embedding = 50,
          .head = 100,
          .trunk = {40, 40, 40, 40},
          .experts = 320,
          .largest_expert = 10,
          .num_experts = 8,
          .experts_per_token = 2};
}

MemoryPlan plan(std::uint64_t limit, LoadMode mode = LoadMode::kAuto) {
  return plan_memory(sizes(), {mode, limit, kWorking}, "model");
}

TEST(MemoryPlan, WhatFitsIsCopied) {
  const MemoryPlan all = plan(kWorking + 630);
  EXPECT_TRUE(all.all_resident());
  EXPECT_TRUE(all.copies);
  EXPECT_EQ(all.resident, 630u);
  EXPECT_EQ(all.disk_bytes_per_token, 0);
  EXPECT_FALSE(plan(kWorking + 629).all_resident());
  EXPECT_FALSE(plan(kWorking + 630, LoadMode::kMap).copies);
}

TEST(MemoryPlan, ExpertsGiveWayBeforeTheTrunk) {
  const MemoryPlan mixed = plan(kWorking + 310 + 80);
  EXPECT_EQ(mixed.resident, 310u);
  EXPECT_EQ(mixed.streamed, 0u);
  EXPECT_EQ(mixed.experts, 320u);
  EXPECT_EQ(mixed.expert_cache, 80u);
  // Two of eight experts of four layers, a quarter of them cached.
  EXPECT_DOUBLE_EQ(mixed.disk_bytes_per_token, 80 * 0.75);
}

// Beside the experts' window of 40 there is no room for the trunk: first the embedding goes, then
// layers, the head last.
TEST(MemoryPlan, LayersGiveWayFromTheLast) {
  const MemoryPlan some = plan(kWorking + 40 + 309);
  EXPECT_EQ(some.streamed_layers, 1);
  EXPECT_EQ(some.stream_window, 80u);
  EXPECT_EQ(some.resident, 100u + 120u);
  EXPECT_EQ(some.streamed, 40u);
  EXPECT_EQ(some.expert_cache, 49u);

  const MemoryPlan head_only = plan(kWorking + 40 + 180);
  EXPECT_EQ(head_only.streamed_layers, 4);
  EXPECT_FALSE(head_only.head_streamed);
  EXPECT_EQ(head_only.streamed, 160u);

  const MemoryPlan least = plan(kWorking + 40 + 140);
  EXPECT_TRUE(least.head_streamed);
  EXPECT_EQ(least.streamed_layers, 4);
  EXPECT_EQ(least.stream_window, 140u);
  EXPECT_EQ(least.resident, 0u);
}

TEST(MemoryPlan, EveryLimitIsObeyed) {
  const std::uint64_t minimum = plan(kWorking + 630).minimum;
  EXPECT_EQ(minimum, kWorking + 40 + 140);
  double last = 1e9;
  for (std::uint64_t limit = minimum; limit <= kWorking + 640; ++limit) {
    for (LoadMode mode : {LoadMode::kAuto, LoadMode::kMap}) {
      const MemoryPlan p = plan(limit, mode);
      EXPECT_LE(p.working + p.resident + p.stream_window + p.expert_cache, limit);
      EXPECT_LE(p.disk_bytes_per_token, last) << "more memory, more reading at " << limit;
      last = p.disk_bytes_per_token;
    }
  }
}

TEST(MemoryPlan, BelowTheMinimumItIsRefusedWithTheNumber) {
  const Error error = catch_error([] { plan(1179); });
  EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
  EXPECT_THAT(error.what(), HasSubstr("model: 1180 bytes of memory are needed, the limit is 1179; "
                                      "use --memory 1MiB or more"));
  EXPECT_NO_THROW(plan(1180));
}

TEST(MemoryPlan, ACopyThatDoesNotFitIsRefused) {
  const Error error = catch_error([] { plan(kWorking + 629, LoadMode::kCopy); });
  EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
  EXPECT_THAT(error.what(), HasSubstr("1630 bytes of memory are needed, the limit is 1629; use "
                                      "--load auto"));
}

class FixtureSizes : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir_ = test_data_dir() / "fixtures" / GetParam();
  ModelConfig config_ = load_config(dir_);
  CheckpointFiles files_{dir_};
};

// Each tensor is counted once, and with a plan that streams all of it, left in its file.
TEST_P(FixtureSizes, AreThoseOfTheFiles) {
  const WeightSizes sizes = weight_sizes(files_, config_);
  EXPECT_EQ(sizes.total(), files_.total_bytes());
  EXPECT_EQ(sizes.trunk.size(), static_cast<std::size_t>(config_.num_layers));
  for (std::uint64_t layer : sizes.trunk) EXPECT_GT(layer, 0u);
  EXPECT_GT(sizes.head, 0u);

  MemoryPlan plan;
  plan.streamed = sizes.total() - sizes.experts;
  plan.streamed_layers = 1;
  plan.experts = sizes.experts;
  const auto in_file = stays_in_file(plan, config_);
  std::uint64_t kept = 0;
  for (const TensorInfo& tensor : files_.tensors()) {
    if (!in_file(tensor)) kept += tensor.bytes;
  }
  EXPECT_EQ(kept, sizes.total() - sizes.experts - sizes.embedding - sizes.trunk.back());
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FixtureSizes,
                         testing::Values("k3", "kimi_linear", "dense_only", "attnres_full"));

}  // namespace
}  // namespace baltoro
