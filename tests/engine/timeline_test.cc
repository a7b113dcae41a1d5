// Who owns which slot and page: nothing leaks, nothing shared is written to.
#include "engine/timeline.h"

#include <gtest/gtest.h>

#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

ModelConfig two_layers() {
  ModelConfig config;
  config.hidden_size = 8;
  config.num_layers = 2;
  config.layers = {{MixerKind::kKda, FfnKind::kDense}, {MixerKind::kMla, FfnKind::kDense}};
  config.kda.num_heads = 1;
  config.kda.head_dim_k = 4;
  config.kda.head_dim_v = 2;
  config.kda.conv_width = 4;
  config.mla.num_heads = 1;
  config.mla.kv_lora_rank = 4;
  config.mla.qk_rope_dim = 2;
  return config;
}

class TimelineOwnership : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_reference_backend(Activations::kF32);
  ModelConfig config_ = two_layers();
  SequenceState state_{*backend_, config_};
  StatePool pool_{state_};
};

TEST_F(TimelineOwnership, EverythingComesBack) {
  {
    Timeline timeline(pool_);
    const std::vector<TokenId> tokens(130, 1);
    const Feed feed = timeline.append(tokens, Origin::kPrompt);
    EXPECT_EQ(feed.begin, 0);
    EXPECT_EQ(feed.end, 130);
    timeline.own_pages(0, 130);
    timeline.note_prompt_rows(0, 130);
    EXPECT_EQ(timeline.restart_pos, 128);
    const auto copy = timeline.clone();
    EXPECT_EQ(pool_.slots_in_use(), 4);
    EXPECT_EQ(pool_.pages_in_use(), 3);
  }
  EXPECT_EQ(pool_.slots_in_use(), 0);
  EXPECT_EQ(pool_.pages_in_use(), 0);
}

TEST_F(TimelineOwnership, GeneratedTokensNeedNoBoundaryState) {
  Timeline timeline(pool_);
  timeline.append(std::vector<TokenId>(10, 1), Origin::kPrompt);
  EXPECT_EQ(pool_.slots_in_use(), 2);
  timeline.append(std::vector<TokenId>(1, 1), Origin::kGenerated);
  EXPECT_EQ(pool_.slots_in_use(), 1);
  EXPECT_EQ(timeline.clone()->boundary_slot, -1);
}

TEST_F(TimelineOwnership, AnOpenBlockStartsOverFromItsBoundary) {
  Timeline timeline(pool_);
  timeline.append(std::vector<TokenId>(100, 1), Origin::kPrompt);
  timeline.note_prompt_rows(0, 100);
  const Feed next = timeline.append(std::vector<TokenId>(5, 1), Origin::kPrompt);
  EXPECT_EQ(next.begin, 64);
  EXPECT_EQ(next.end, 105);
  timeline.append(std::vector<TokenId>(1, 1), Origin::kGenerated);
  const Feed after = timeline.append(std::vector<TokenId>(5, 1), Origin::kPrompt);
  EXPECT_EQ(after.begin, 106) << "a prompt after generated tokens never computes those again";
}

TEST_F(TimelineOwnership, WritingToASharedPageTakesACopy) {
  Timeline timeline(pool_);
  timeline.append(std::vector<TokenId>(70, 1), Origin::kPrompt);
  timeline.own_pages(0, 70);
  auto* first = static_cast<float*>(state_.mla(1).data);
  first[0] = 42.0f;
  const auto copy = timeline.clone();
  EXPECT_EQ(copy->pages, timeline.pages);
  copy->own_pages(64, 71);
  EXPECT_EQ(copy->pages[0], timeline.pages[0]);
  EXPECT_NE(copy->pages[1], timeline.pages[1]);
  EXPECT_FALSE(pool_.is_shared(timeline.pages[1]));
}

TEST_F(TimelineOwnership, PoolsGrowAndKeepTheirContent) {
  std::vector<std::unique_ptr<Timeline>> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(std::make_unique<Timeline>(pool_));
    state_.kda(0).f32()[many.back()->live_slot * 8] = static_cast<float>(i + 1);
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(state_.kda(0).f32()[many[static_cast<std::size_t>(i)]->live_slot * 8],
              static_cast<float>(i + 1));
  }
  many.clear();
  Timeline fresh(pool_);
  EXPECT_EQ(state_.kda(0).f32()[fresh.live_slot * 8], 0.0f) << "a reused slot starts at zero";
}

}  // namespace
}  // namespace baltoro
