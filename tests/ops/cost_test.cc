// The ideal costs against the published totals of Kimi K3 and closed forms.
#include "ops/cost.h"

#include <gtest/gtest.h>

#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"

namespace baltoro {
namespace {

constexpr KdaShape kKda{96, 128, 128, 4, false};
constexpr MlaShape kMla{MlaKind::kLatent, 96, 96, 128, 64, 128, 512};

WeightView bf16(std::int64_t rows, std::int64_t cols) {
  return {nullptr, nullptr, WeightFormat::kBf16, rows, cols};
}
WeightView mxfp4(std::int64_t rows, std::int64_t cols) {
  return {nullptr, nullptr, WeightFormat::kMxfp4, rows, cols};
}

TEST(KdaCost, DecodeIsSevenFlopsAStateElementAndTheConv) {
  const Cost cost = kda_mix_cost(kKda, 1, 1, DType::kBf16);
  const double conv = 2.0 * 4 * 3 * 12288;
  EXPECT_EQ(cost.flops, 7.0 * 96 * 128 * 128 + conv);
  EXPECT_EQ(cost.executed_flops, cost.flops);
  // 69 layers: 0.76 GFLOP of the rule a token.
  EXPECT_NEAR(69 * (cost.flops - conv), 0.76e9, 0.005e9);
}

TEST(KdaCost, StateOfAllLayersIsThePublishedSize) {
  const Cost cost = kda_mix_cost(kKda, 1, 1, DType::kBf16);
  const double conv_state = 2.0 * 3 * 3 * 12288 * 4;
  EXPECT_EQ(69 * (cost.state_bytes - conv_state), 2 * 434110464.0);
  const Cost many = kda_mix_cost(kKda, 100, 5, DType::kBf16);
  EXPECT_EQ(many.state_bytes, 5 * cost.state_bytes) << "once per sequence, not per token";
}

TEST(KdaCost, PromptExecutesTheChunkForm) {
  const Cost cost = kda_mix_cost(kKda, 1000, 1, DType::kBf16, Origin::kPrompt);
  const Cost decode = kda_mix_cost(kKda, 1000, 1, DType::kBf16, Origin::kGenerated);
  EXPECT_EQ(cost.flops, decode.flops) << "the ideal does not depend on the algorithm";
  const double conv = 1000 * 2.0 * 4 * 3 * 12288;
  const double chunk = 96 * (6.0 * 1000 * 128 * 128 + 3.0 * 1000 * 64 * 128 + 1000.0 * 64 * 64);
  EXPECT_EQ(cost.executed_flops, chunk + conv);
  EXPECT_NEAR(69 * chunk / 1000, 0.84e9, 0.005e9);
}

TEST(ExpertCost, BytesOfOneExpertAndOfAToken) {
  const ExpertWeights expert{mxfp4(3072, 3584), mxfp4(3072, 3584), mxfp4(3584, 3072)};
  EXPECT_EQ(expert_mlp_cost(1, 1, 1, expert).weight_bytes, 17547264);
  const Cost token = expert_mlp_cost(1, 16, 16, expert);
  EXPECT_EQ(92 * token.weight_bytes, 25829572608.0);
  EXPECT_EQ(token.flops, 6.0 * 16 * 3584 * 3072);
  EXPECT_EQ(token.activation_bytes, 2.0 * 2 * 3584 + 16 * 8);
  const Cost batch = expert_mlp_cost(64, 16, 613, expert);
  EXPECT_EQ(batch.weight_bytes, 613 * 17547264.0) << "an expert is read once, whoever shares it";
  EXPECT_EQ(batch.flops, 64 * token.flops);
}

TEST(MlaCost, AbsorbedDecodeOverTheLatent) {
  const double context = 8192;
  const Cost cost = mla_decode_cost(kMla, 8191, DType::kBf16, DType::kBf16);
  const double absorb = 2.0 * 96 * 512 * (128 + 128);
  EXPECT_EQ(cost.flops, absorb + 2 * context * 96 * (2 * 512 + 64));
  EXPECT_EQ(cost.state_bytes, context * 576 * 2);
  EXPECT_EQ(cost.weight_bytes, 24576.0 * 512 * 2 + 512 * 4);
  // 24 layers, without the up-projection: 41.1 GFLOP a token at 8192 tokens; 27,648 B a token.
  EXPECT_NEAR(24 * (cost.flops - absorb), 41.1e9, 0.05e9);
  EXPECT_EQ(24 * cost.state_bytes / context, 27648);
}

TEST(MlaCost, ExpandedPrefillIsCausalAndCountsReExpansionApart) {
  const Cost cost = mla_prefill_cost(kMla, 8192, 0, DType::kBf16, DType::kBf16);
  const double up = 2.0 * 8192 * 512 * 96 * 256;
  const double pairs = 8192.0 * 8193 / 2;
  EXPECT_EQ(cost.flops, up + 2 * pairs * 96 * 320);
  EXPECT_EQ(cost.executed_flops, cost.flops);
  EXPECT_NEAR(24 * (cost.flops - up) / 8192, 6.0e9, 0.05e9);
  const Cost later = mla_prefill_cost(kMla, 64, 8192, DType::kBf16, DType::kBf16);
  EXPECT_EQ(later.executed_flops - later.flops, up) << "the past is expanded again";
  EXPECT_EQ(later.state_bytes, (8192.0 + 64) * 576 * 2);
}

TEST(MlaCost, SplittingAPromptKeepsItsFlops) {
  Cost parts = mla_prefill_cost(kMla, 100, 0, DType::kBf16, DType::kBf16);
  parts += mla_prefill_cost(kMla, 37, 100, DType::kBf16, DType::kBf16);
  EXPECT_EQ(parts.flops, mla_prefill_cost(kMla, 137, 0, DType::kBf16, DType::kBf16).flops);
}

TEST(MlaCost, GroupedHeadsOfEqualCacheBytes) {
  const MlaShape gqa{MlaKind::kGqa, 96, 2, 144, 0, 144, 0};
  const Cost cost = mla_decode_cost(gqa, 99, DType::kBf16, DType::kBf16);
  EXPECT_EQ(cost.state_bytes, mla_decode_cost(kMla, 99, DType::kBf16, DType::kBf16).state_bytes);
  EXPECT_EQ(cost.flops, 2.0 * 100 * 96 * 288);
  EXPECT_EQ(cost.weight_bytes, 0);
}

TEST(MixNormCost, MovesOneRowPerSourceAndThreeMoreWithTheAdd) {
  const Cost plain = mix_norm_cost(10, 7168, 9, false, DType::kBf16);
  EXPECT_EQ(plain.activation_bytes, 10 * (9 + 1) * 7168.0 * 2);
  const Cost fused = mix_norm_cost(10, 7168, 9, true, DType::kBf16);
  EXPECT_EQ(fused.activation_bytes, 10 * (9 + 3) * 7168.0 * 2);
  EXPECT_EQ(fused.flops - plain.flops, 10 * 7168.0);
  // 1002 sources in the 186 mixes of a token: 0.03 GFLOP.
  const Cost one = mix_norm_cost(1, 7168, 1, false, DType::kBf16);
  EXPECT_EQ((plain.flops / 10 - one.flops) / 9 * 1002, 1002 * 4.0 * 7168);
}

TEST(LinearCost, TwoFlopsAWeightAndEachByteOnce) {
  const Cost cost = linear_cost(3, bf16(12288, 7168));
  EXPECT_EQ(cost.flops, 2.0 * 3 * 12288 * 7168);
  EXPECT_EQ(cost.weight_bytes, 12288.0 * 7168 * 2);
  EXPECT_EQ(cost.activation_bytes, 3.0 * (12288 + 7168) * 2);
  EXPECT_EQ(linear_cost(1, mxfp4(64, 64)).weight_bytes, 64 * 32 + 64 * 2);
  const WeightView mxint8{nullptr, nullptr, WeightFormat::kMxint8, 64, 96};
  EXPECT_EQ(linear_cost(1, mxint8).weight_bytes, 64 * 96 + 64 * 3);
}

TEST(GluCost, ThreeProductsWithNothingStoredBetween) {
  const Cost cost = glu_mlp_cost(2, bf16(33792, 7168), bf16(33792, 7168), bf16(7168, 33792));
  EXPECT_EQ(cost.flops, 6.0 * 2 * 33792 * 7168);
  EXPECT_EQ(cost.weight_bytes, 1453326336.0);
  EXPECT_EQ(cost.activation_bytes, 2 * 2 * 7168.0 * 2);
}

TEST(RouteAndHeadCost, WriteChoicesAndF32Logits) {
  const Cost router = route_cost(4, bf16(896, 7168), 16);
  EXPECT_EQ(router.flops, 2.0 * 4 * 896 * 7168);
  EXPECT_EQ(router.activation_bytes, 4 * (7168.0 * 2 + 16 * 8));
  const Cost logits = head_cost(2, bf16(163840, 7168));
  EXPECT_EQ(logits.weight_bytes, 2348810240.0);
  EXPECT_EQ(logits.activation_bytes, 2 * (7168.0 * 2 + 163840 * 4));
}

TEST(EmbedCost, ReadsOnlyTheRowsOfTheTokens) {
  const Cost cost = embed_cost(5, 7168, WeightFormat::kBf16);
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.weight_bytes, 5 * 7168.0 * 2);
  EXPECT_EQ(cost.activation_bytes, 5 * 7168.0 * 2);
}

}  // namespace
}  // namespace baltoro
