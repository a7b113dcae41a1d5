// Collectives: the de-duplication table, limits, rho of the founding notes and in full.
#include "plan/network.h"

#include <gtest/gtest.h>

#include <cmath>

#include "baltoro/error.h"
#include "plan/step.h"

namespace baltoro::plan {
namespace {

struct DedupRow {
  std::int64_t ranks;
  double k2, k3, k2_elements, k3_elements;
};

TEST(Dedup, TableOfDestinations) {
  for (const DedupRow& row : {
           DedupRow{4, 3.61, 3.96, 19404, 10649},
           {8, 5.28, 7.07, 33116, 22183},
           {16, 6.50, 10.35, 43676, 34790},
           {32, 7.24, 12.83, 50252, 44543},
           {72, 7.69, 14.54, 54327, 51402},
       }) {
    const double r2 = distinct_destinations(384, 8, row.ranks);
    const double r3 = distinct_destinations(896, 16, row.ranks);
    EXPECT_NEAR(r2, row.k2, 0.0051) << row.ranks;
    EXPECT_NEAR(r3, row.k3, 0.0051) << row.ranks;
    const double remote = static_cast<double>(row.ranks - 1) / static_cast<double>(row.ranks);
    EXPECT_NEAR(r2 * 7168 * remote, row.k2_elements, 0.51) << row.ranks;
    EXPECT_NEAR(r3 * 3584 * remote, row.k3_elements, 0.51) << row.ranks;
  }
}

TEST(Dedup, Limits) {
  // One expert a rank: a copy for each. More choices than any rank can be without: one a rank.
  // Its last digits are the C library's lgamma.
  EXPECT_NEAR(distinct_destinations(896, 16, 896), 16, 1e-8);
  EXPECT_NEAR(distinct_destinations(896, 800, 8), 8, 1e-9);
  EXPECT_NEAR(distinct_destinations(896, 16, 1), 1, 1e-12);
  for (std::int64_t ranks = 1; ranks < 200; ++ranks) {
    const double r = distinct_destinations(896, 16, ranks);
    EXPECT_GE(r, 1 - 1e-9);
    EXPECT_LE(r, std::min<double>(16, static_cast<double>(ranks)) + 1e-9);
    EXPECT_NEAR(
        r / (static_cast<double>(ranks) * (1 - std::pow(1 - 1.0 / static_cast<double>(ranks), 16))),
        1, 0.01);
  }
}

struct RhoRow {
  double flops, bandwidth;
  double k2[3], k3[3];  // one byte each way of the notes, FP8 + BF16, BF16 + BF16
};

TEST(CommOverCompute, TableOfSystems) {
  for (const RhoRow& row : {
           RhoRow{989e12, 450e9, {0.36, 0.54, 0.72}, {0.24, 0.36, 0.48}},
           {1979e12, 450e9, {0.72, 1.07, 1.43}, {0.48, 0.72, 0.95}},
           {5e15, 900e9, {0.90, 1.36, 1.81}, {0.60, 0.90, 1.21}},
           {10e15, 900e9, {1.81, 2.71, 3.62}, {1.21, 1.81, 2.41}},
           {1979e12, 50e9, {6.44, 9.66, 12.9}, {4.29, 6.44, 8.6}},
           {989e12, 50e9, {3.22, 4.83, 6.44}, {2.15, 3.22, 4.29}},
           {4.5e15, 900e9, {0.81, 1.22, 1.63}, {0.54, 0.81, 1.09}},
       }) {
    const double bytes[] = {2, 3, 4};
    for (int i = 0; i < 3; ++i) {
      const double tolerance = row.k2[i] > 10 ? 0.051 : 0.0051;
      EXPECT_NEAR(comm_over_compute(row.flops, bytes[i], 3, 2048, row.bandwidth), row.k2[i],
                  tolerance);
      EXPECT_NEAR(comm_over_compute(row.flops, bytes[i], 3, 3072, row.bandwidth), row.k3[i],
                  row.k3[i] > 8 ? 0.051 : 0.0051);
    }
  }
}

TEST(CommOverCompute, AcrossNodesWithDedup) {
  // 4 nodes: R/K of the nodes and the share that leaves one.
  const double k2 = distinct_destinations(384, 8, 4) / 8 * 3 / 4;
  const double k3 = distinct_destinations(896, 16, 4) / 16 * 3 / 4;
  EXPECT_NEAR(k2, 0.338, 0.0005);
  EXPECT_NEAR(k3, 0.186, 0.0005);
  EXPECT_NEAR(k2 * comm_over_compute(1979e12, 3, 3, 2048, 50e9), 3.27, 0.006);
  EXPECT_NEAR(k3 * comm_over_compute(989e12, 3, 3, 3072, 50e9), 0.60, 0.006);
  // The fan-out inside a node at 160 GB/s.
  const double fan2 = distinct_destinations(384, 8, 32) / 8 * 7 / 8;
  const double fan3 = distinct_destinations(896, 16, 32) / 16 * 7 / 8;
  EXPECT_NEAR(fan2 * comm_over_compute(1979e12, 3, 3, 2048, 160e9), 2.4, 0.05);
  EXPECT_NEAR(fan3 * comm_over_compute(989e12, 3, 3, 3072, 160e9), 0.71, 0.006);
}

TEST(CommOverCompute, PapersNineToOneIsASmallInnerWidth) {
  for (const auto& [inner, ratio] : {std::pair{2048.0, 3.6}, {1536.0, 4.8}, {768.0, 9.6}}) {
    EXPECT_NEAR(comm_over_compute(10e15, 4, 3, inner, 900e9), ratio, 0.06);
  }
  // Two matrices an expert: 4 in place of 6.
  EXPECT_NEAR(comm_over_compute(1e15, 3, 2, 5120, 1e12) / comm_over_compute(1e15, 3, 3, 5120, 1e12),
              1.5, 1e-12);
}

TEST(AllToAll, OneGroupOfAllForms) {
  const AllToAll message = {896, 16, 8, 3584 * 3.0};
  const double row = 8 * 3584 * 3.0;
  const Traffic flat = all_to_all({8, 8}, message, Dedup::kFlat);
  EXPECT_NEAR(flat.inside, row * 16 * 7 / 8, 1e-6);
  EXPECT_EQ(flat.outside, 0);
  EXPECT_NEAR(all_to_all({8, 8}, message, Dedup::kRank).inside,
              row * distinct_destinations(896, 16, 8) * 7 / 8, 1e-6);
  const Traffic wide = all_to_all({32, 8}, message, Dedup::kFlat);
  EXPECT_NEAR(wide.bytes(), row * 16 * 31 / 32, 1e-6);
  const Traffic node = all_to_all({32, 8}, message, Dedup::kNode);
  EXPECT_NEAR(node.outside, row * distinct_destinations(896, 16, 4) * 3 / 4, 1e-6);
  EXPECT_EQ(all_to_all({1, 8}, message, Dedup::kFlat).bytes(), 0);
}

TEST(AllReduce, RingSwitchAndLevels) {
  EXPECT_DOUBLE_EQ(all_reduce({8, 8}, 800, false).inside, 1400);
  EXPECT_DOUBLE_EQ(all_reduce({8, 8}, 800, true).inside, 700);
  EXPECT_DOUBLE_EQ(all_reduce({1, 8}, 800, true).bytes(), 0);
  const Traffic two = all_reduce({16, 8}, 800, true);
  EXPECT_DOUBLE_EQ(two.inside, 700);
  EXPECT_DOUBLE_EQ(two.outside, 100);
}

TEST(Links, MissingOneIsNamed) {
  const Hardware mac = preset_hardware("m3-ultra").hardware;
  const LinkRates none;
  EXPECT_EQ(traffic_seconds({}, none, mac), 0);
  try {
    traffic_seconds({1, 0, 1, 0}, none, mac);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no scale-up link"), std::string::npos);
  }
}

TEST(Pipeline, PayloadGrowsWithAttentionResiduals) {
  // Megatron-Bridge 5130 saw 4 and 7 hidden rows at the two cuts of three stages.
  const ModelConfig config = preset_model("k3").config;
  const std::vector<std::int64_t> begins = stage_begins(93, 3);
  ASSERT_EQ(begins, (std::vector<std::int64_t>{0, 31, 62, 93}));
  EXPECT_EQ(mix_sources(config, 2 * 31), 4);
  EXPECT_EQ(mix_sources(config, 2 * 62), 7);
  EXPECT_EQ(mix_sources(config, 2 * 12), 2);  // no empty running sum at a block's end
  EXPECT_EQ(mix_sources(config, 2 * 93), 9);
  EXPECT_NEAR(9 * 16384.0 * 7168 * 2 / 1e9, 2.1, 0.05);
}

TEST(AttentionResiduals, SourcesOfK3) {
  const ModelConfig config = preset_model("k3").config;
  std::int64_t mixes = 0;
  std::int64_t sources = 0;
  for (std::int64_t j = 1; j <= 186; ++j) {
    ++mixes;
    sources += mix_sources(config, j);
    EXPECT_LE(mix_sources(config, j), 9);
  }
  EXPECT_EQ(mixes, 186);
  EXPECT_EQ(sources, 1002);
  EXPECT_NEAR(static_cast<double>(sources) * 4 * 7168 / 1e9, 0.03, 0.002);
}

}  // namespace
}  // namespace baltoro::plan
