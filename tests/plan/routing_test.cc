// Distinct experts, skew and padding, against the tables of docs/cost-model.md.
#include "plan/routing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/inventory.h"

namespace baltoro::plan {
namespace {

struct DistinctRow {
  double tokens, k2, k3, k2_gb, k3_gb, k2_tau, k3_tau;
};

TEST(DistinctExperts, TableOfK2AndK3) {
  PlanModel k2 = preset_model("k2.5");
  const PlanModel k3 = preset_model("k3");
  const double k2_bytes = expert_parameters(k2) * format_bytes(Format::kInt4) / 1e9;
  const double k3_bytes = expert_parameters(k3) * format_bytes(Format::kMxfp4) / 1e9;
  for (const DistinctRow& row : {
           DistinctRow{1, 8, 16, 0.20, 0.28, 0.02, 0.02},
           {8, 59.5, 120, 1.47, 2.11, 0.17, 0.14},
           {16, 110, 224, 2.72, 3.94, 0.33, 0.29},
           {64, 284, 613, 7.04, 10.8, 1.33, 1.14},
           {256, 382, 887, 9.47, 15.6, 5.3, 4.6},
           {1024, 384, 896, 9.51, 15.7, 21.3, 18.3},
       }) {
    const double d2 = distinct_experts(384, 8, row.tokens);
    const double d3 = distinct_experts(896, 16, row.tokens);
    EXPECT_NEAR(d2, row.k2, row.k2 < 100 ? 0.05 : 0.6) << row.tokens;
    EXPECT_NEAR(d3, row.k3, 0.6) << row.tokens;
    EXPECT_NEAR(d2 * k2_bytes, row.k2_gb, 0.0051) << row.tokens;
    EXPECT_NEAR(d3 * k3_bytes, row.k3_gb, row.k3_gb > 5 ? 0.051 : 0.0051) << row.tokens;
    EXPECT_NEAR(row.tokens * 8 / 384, row.k2_tau, 0.05);
    EXPECT_NEAR(row.tokens * 16 / 896, row.k3_tau, 0.05);
  }
}

TEST(DistinctExperts, ADecodeCaseThatWasMeasured) {
  // TileOPs 2127: the profiler counted 15.57 GB where the touched experts have 14.99.
  EXPECT_NEAR(15.57 / 14.99, 1.039, 0.001);
  // FlashInfer 5179: 112 local experts of 896, local share of the distinct ones.
  const double local[] = {2, 4, 7.8, 15.0, 28.1, 49.1, 76.6};
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(distinct_experts(896, 16, std::exp2(i)) / 8, local[i], 0.06) << i;
  }
}

TEST(Popularity, ZipfAndHistogramsAreScaledToK) {
  const auto sum = [](const std::vector<double>& p) {
    double result = 0;
    for (const double x : p) {
      EXPECT_LE(x, 1);
      result += x;
    }
    return result;
  };
  EXPECT_NEAR(sum(popularity(parse_routing("zipf:1.2"), 896, 16)), 16, 1e-9);
  EXPECT_NEAR(sum(popularity(histogram_routing("9 1\n1,1", "h"), 4, 2)), 2, 1e-9);
  // One expert that every token takes, the rest even.
  const auto hot = popularity(histogram_routing("9 1 1 1", "h"), 4, 2);
  EXPECT_NEAR(hot[0], 1, 1e-9);
  EXPECT_NEAR(hot[1], 1.0 / 3, 1e-9);
  // zipf:0 is uniform.
  const auto flat = popularity(parse_routing("zipf:0"), 896, 16);
  EXPECT_NEAR(distinct_experts(flat, 64), distinct_experts(896, 16, 64), 1e-6);
}

TEST(Popularity, SkewTouchesFewerExpertsAndLoadsARankMore) {
  const auto even = popularity(parse_routing("uniform"), 896, 16);
  const auto skewed = popularity(parse_routing("zipf:0.6"), 896, 16);
  EXPECT_LT(distinct_experts(skewed, 64), distinct_experts(even, 64));
  EXPECT_NEAR(placement_skew(even, 16, 0), 1, 1e-12);
  const double unbalanced = placement_skew(skewed, 16, 0);
  EXPECT_GT(unbalanced, 1.1);
  EXPECT_LT(placement_skew(skewed, 16, 32), unbalanced);
  EXPECT_GE(placement_skew(skewed, 16, 32), 1);
}

TEST(Popularity, ChanceAloneIsUneven) {
  EXPECT_DOUBLE_EQ(chance_skew(100, 1), 1);
  EXPECT_NEAR(chance_skew(8, 8), 1 + std::sqrt(2 * std::log(8.0) / 8), 1e-12);
  EXPECT_LT(chance_skew(8000, 8), 1.03);
}

TEST(Padding, TilesOfDecode) {
  // K3, 256 tokens: some 4.6 rows an expert; tiles of 32 are mostly padding.
  const double distinct = distinct_experts(896, 16, 128);
  const double rows = 128 * 16;
  EXPECT_NEAR(rows / distinct, 2.5, 0.1);
  EXPECT_NEAR(1 - rows / padded_rows(rows, distinct, 32), 0.92, 0.005);
  EXPECT_EQ(padded_rows(64, 1, 32), 64);
}

}  // namespace
}  // namespace baltoro::plan
