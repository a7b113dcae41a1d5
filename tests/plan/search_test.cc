// The layout search: known bests, nothing better left out, and a reason for each rival.
#include "plan/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/capacity.h"
#include "plan/scenarios.h"
#include "plan/totals.h"

namespace baltoro::plan {
namespace {

using testing::HasSubstr;

bool dominates(const Candidate& a, const Candidate& b) {
  return a.latency <= b.latency && a.throughput >= b.throughput &&
         a.layout.devices() <= b.layout.devices();
}

TEST(LayoutSearch, OneUserTakesAllTensorRanksOfADomain) {
  // Bound by bytes alone, every weight has to be read once: all of them in parts, none twice.
  const LayoutSearch k3 = search_layouts(scenario_of("k3", "b300", "tp=1"), 8, {});
  ASSERT_FALSE(k3.best.empty());
  const Layout& fastest = k3.best.front().layout;
  EXPECT_EQ(fastest.tp, 8);
  EXPECT_EQ(fastest.pp, 1);
  EXPECT_FALSE(fastest.replicate_latent);
  EXPECT_FALSE(fastest.attention_dp);
  const LayoutSearch dense = search_layouts(scenario_of("gqa-70b", "h200", "tp=1"), 8, {});
  EXPECT_EQ(dense.best.front().layout.tp, 8);
  // 70.6 G parameters less the embedding and 8 k tokens of cache, in eighths of BF16 at 4.8 TB/s.
  EXPECT_NEAR(dense.best.front().latency * 1e3, (139.0 + 2.7) / 8 / 4.8, 0.02);
  // Fewer devices are worth a place too.
  EXPECT_LT(dense.best.back().layout.devices(), 8);
}

TEST(LayoutSearch, LongContextsSpreadTheCache) {
  Scenario scenario = scenario_of("k3", "b300", "tp=1");
  scenario.workload.batch = 32;
  scenario.workload.context = 1 << 20;
  const LayoutSearch search = search_layouts(scenario, 16, {});
  ASSERT_FALSE(search.best.empty());
  for (const Candidate& candidate : search.best) {
    EXPECT_TRUE(candidate.layout.dcp > 1 || candidate.layout.attention_groups() > 1)
        << describe(candidate.layout);
  }
}

TEST(LayoutSearch, NothingBetterIsLeftOut) {
  for (const char* hardware : {"h200", "gb200"}) {
    Scenario scenario = scenario_of("k3", hardware, "tp=1");
    scenario.efficiency = typical_efficiency(scenario.hardware);
    scenario.workload.batch = 16;
    const LayoutSearch search = search_layouts(scenario, 16, {});
    ASSERT_FALSE(search.best.empty());
    for (const Candidate& a : search.best) {
      for (const Candidate& b : search.best) EXPECT_TRUE(&a == &b || !dominates(a, b));
      scenario.layout = a.layout;
      EXPECT_EQ(a.latency, compute_totals(scenario).tpot);
      EXPECT_EQ(a.batch, compute_capacity(scenario).max_batch);
    }
    for (const Candidate& rival : search.rivals) {
      EXPECT_NE(rival.verdict, Verdict::kBest);
      EXPECT_NE(rival.reason, "") << describe(rival.layout);
      if (rival.verdict != Verdict::kDominated) continue;
      const bool beaten =
          std::any_of(search.best.begin(), search.best.end(), [&](const Candidate& kept) {
            return kept.latency <= 1.01 * rival.latency &&
                   kept.throughput >= 0.99 * rival.throughput &&
                   kept.layout.devices() <= rival.layout.devices();
          });
      EXPECT_TRUE(beaten) << describe(rival.layout);
    }
  }
}

TEST(LayoutSearch, MessagesAreTheReasonWhereTheyAreTheDifference) {
  // Sixteen tensor ranks read what eight and two stages do, and add up over two domains.
  Scenario scenario = scenario_of("k3", "h200", "tp=1");
  scenario.efficiency = typical_efficiency(scenario.hardware);
  scenario.workload.batch = 4;
  scenario.workload.context = 1 << 17;
  const LayoutSearch search = search_layouts(scenario, 16, {});
  const auto wide =
      std::find_if(search.rivals.begin(), search.rivals.end(),
                   [](const Candidate& c) { return c.layout.tp == 16 && c.layout.ep == 1; });
  ASSERT_NE(wide, search.rivals.end());
  EXPECT_THAT(wide->reason, HasSubstr("(net)"));
}

TEST(LayoutSearch, LimitsAreKept) {
  Scenario scenario = scenario_of("k3", "b300", "tp=1");
  scenario.efficiency = typical_efficiency(scenario.hardware);
  constexpr double kLimit = 25e-3;
  const LayoutSearch search = search_layouts(scenario, 8, {.tpot = kLimit, .ttft = 0});
  ASSERT_FALSE(search.best.empty());
  for (const Candidate& candidate : search.best) {
    EXPECT_LE(static_cast<double>(candidate.batch) / candidate.throughput, kLimit);
    scenario.layout = candidate.layout;
    scenario.workload.batch = candidate.batch + 1;
    const bool more = compute_capacity(scenario).fits;
    EXPECT_TRUE(!more || compute_totals(scenario).tpot > kLimit);
  }
  scenario.workload.batch = 1;
  const LayoutSearch none = search_layouts(scenario, 8, {.tpot = 1e-3, .ttft = 0});
  EXPECT_TRUE(none.best.empty());
  EXPECT_THAT(none.rivals.front().reason, HasSubstr("the limit is 1 ms"));
}

TEST(LayoutSearch, SaysByHowMuchItDoesNotFit) {
  const LayoutSearch search = search_layouts(scenario_of("k3", "h200", "tp=1"), 8, {});
  EXPECT_TRUE(search.best.empty());
  for (const Candidate& rival : search.rivals) {
    EXPECT_EQ(rival.verdict, Verdict::kNoFit);
    EXPECT_THAT(rival.reason, HasSubstr("weights exceed the memory by"));
  }
  EXPECT_THROW(search_layouts(scenario_of("k3", "rtx4090", "experts=host"), 1, {}), Error);
}

TEST(LayoutSearch, PromptsAreRankedByTheirFirstToken) {
  Scenario scenario = scenario_of("kimi-linear", "h200", "tp=1");
  scenario.workload.phase = Phase::kPrefill;
  const LayoutSearch search = search_layouts(scenario, 4, {});
  ASSERT_FALSE(search.best.empty());
  EXPECT_EQ(search.best.front().latency, search.best.front().ttft);
  EXPECT_NEAR(search.best.front().throughput * search.best.front().ttft, 8192, 1e-6);
}

}  // namespace
}  // namespace baltoro::plan
