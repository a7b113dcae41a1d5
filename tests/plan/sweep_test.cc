// Sweeps: the tables of docs/cost-model.md come out of them, and wrong axes are named.
#include "plan/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

using testing::HasSubstr;

Sweep sweep_of(const Scenario& scenario, const std::vector<std::string>& texts,
               std::int64_t devices = 0) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) axes.push_back(parse_axis(text));
  return run_sweep(scenario, devices, std::move(axes));
}

double value_of(const SweepPoint& point, const char* key) {
  return find_measure(key).value(point.evaluated.value());
}

std::string error_of(const Scenario& scenario, const std::vector<std::string>& texts,
                     std::int64_t devices = 0) {
  try {
    sweep_of(scenario, texts, devices);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

struct CacheRow {
  double cache_kb, parameters, flops, intensity, pair_to_first, rank;
};

void expect_rows(const Sweep& sweep, const std::vector<CacheRow>& rows) {
  ASSERT_EQ(sweep.points.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    ASSERT_TRUE(point.evaluated) << point.reason;
    EXPECT_NEAR(value_of(point, "cache") / 1e3, rows[i].cache_kb, 0.051) << point.labels[0];
    EXPECT_NEAR(value_of(point, "kv_q") / 1e6, rows[i].parameters, 0.051) << point.labels[0];
    EXPECT_EQ(value_of(point, "core"), rows[i].flops) << point.labels[0];
    EXPECT_NEAR(value_of(point, "core_intensity"), rows[i].intensity, 0.6) << point.labels[0];
    EXPECT_NEAR(value_of(point, "pair") / value_of(sweep.points[0], "pair"), rows[i].pair_to_first,
                1e-9)
        << point.labels[0];
    EXPECT_EQ(value_of(point, "rank"), rows[i].rank) << point.labels[0];
  }
}

TEST(Sweep, TheSplitOfTheCache) {
  expect_rows(sweep_of(scenario_of("k3", "b300", "tp=8"),
                       {"split=512:64,512:0,448:128,384:192,512:128,256:64,1024:64"}),
              {{13.8, 45.0, 208896, 181, 1, 192},
               {12.3, 35.1, 196608, 192, 0.8, 128},
               {13.8, 52.9, 196608, 171, 1.2, 256},
               {13.8, 60.8, 184320, 160, 1.4, 320},
               {15.4, 54.9, 221184, 173, 1.2, 256},
               {7.7, 36.9, 110592, 173, 1, 192},
               {26.1, 61.3, 405504, 186, 1, 192}});
}

TEST(Sweep, FormsOfOneCache) {
  expect_rows(
      sweep_of(scenario_of("k3", "b300", "tp=1"), {"kv=mla:512+64|unified:576|mqa:576|gqa:2x144"}),
      {{13.8, 45.0, 208896, 181, 1, 192},
       {13.8, 50.1, 221184, 192, 1, 192},
       // kv_a d 576, q_b r_q H 576, kv_b for values alone; 576 + 128 values a pair.
       {13.8, (7168 * 576 + 1536 * 96 * 576 + 576 * 96 * 128) / 1e6, 221184, 192, 2.2, 576},
       // k and v d 576, q_b r_q H 144; 2 x 144 values a pair.
       {13.8, (7168 * 576 + 1536 * 96 * 144) / 1e6, 55296, 48, 0.9, 144}});
}

struct ExpertRow {
  double width, experts, per_token, routed, latent, values, one, sixty_four, all, sparsity;
};

TEST(Sweep, EffAndAccFromK2) {
  Scenario k2 = scenario_of("k2", "h200", "tp=8");
  k2.model.formats.routed = Format::kMxfp4;
  const Sweep sweep = sweep_of(k2, {"mode=eff,acc,k3", "alpha=1,2,4"});
  const std::vector<ExpertRow> rows = {
      {7168, 384, 8, 705, 0, 57344, 0.19, 6.65, 8.98, 48},
      {3584, 768, 8, 352, 103, 28672, 0.09, 4.39, 8.98, 96},
      {1792, 1536, 8, 176, 51, 14336, 0.05, 2.55, 8.98, 192},
      {7168, 384, 8, 705, 0, 57344, 0.19, 6.65, 8.98, 48},
      {3584, 768, 16, 705, 103, 57344, 0.19, 6.65, 8.98, 48},
      {1792, 1536, 32, 705, 51, 57344, 0.19, 6.65, 8.98, 48},
      {7168, 448, 8, 1057, 0, 57344, 0.28, 10.8, 15.7, 56},
      {3584, 896, 16, 1057, 103, 57344, 0.28, 10.8, 15.7, 56},  // K3's experts
      {1792, 1792, 32, 1057, 51, 57344, 0.28, 10.8, 15.7, 56}};
  ASSERT_EQ(sweep.points.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    ASSERT_TRUE(point.evaluated) << point.reason;
    const ExpertRow& row = rows[i];
    EXPECT_EQ(value_of(point, "latent"), row.width);
    EXPECT_EQ(value_of(point, "experts"), row.experts);
    EXPECT_EQ(value_of(point, "per_token"), row.per_token);
    EXPECT_NEAR(value_of(point, "routed") / 1e6, row.routed, 0.51);
    EXPECT_NEAR(value_of(point, "projections") / 1e6, row.latent, 0.51);
    EXPECT_EQ(value_of(point, "values"), row.values);
    EXPECT_NEAR(value_of(point, "layer_1") / 1e9, row.one, 0.0051);
    EXPECT_NEAR(value_of(point, "layer_64") / 1e9, row.sixty_four,
                row.sixty_four > 9 ? 0.051 : 0.0051);
    EXPECT_NEAR(value_of(point, "layer_all") / 1e9, row.all, row.all > 9 ? 0.051 : 0.0051);
    EXPECT_EQ(value_of(point, "sparsity"), row.sparsity);
  }
}

TEST(Sweep, AccAtK3sOwnAlphaIsK3) {
  const Scenario k3 = scenario_of("k3", "b300", "tp=8");
  const Sweep sweep = sweep_of(k3, {"alpha=2", "mode=acc,eff"});
  const double own = evaluate(k3).totals.step.seconds();
  EXPECT_EQ(value_of(sweep.points[0], "step"), own);
  EXPECT_EQ(value_of(sweep.points[1], "step"), own);
  EXPECT_EQ(value_of(sweep_of(k3, {"alpha=1"}).points[0], "experts"), 448);
}

TEST(Sweep, PointsAreTheScenarioItself) {
  // Each point of a sweep is what a plan of its own says.
  Scenario scenario = scenario_of("k3", "h200", "tp=16");
  const Sweep sweep = sweep_of(scenario, {"batch=1..64:log", "ctx=8k,128k"}, 16);
  ASSERT_EQ(sweep.points.size(), 14u);
  const SweepPoint& point = sweep.points[9];
  EXPECT_EQ(point.labels, (std::vector<std::string>{"16", "128k"}));
  scenario.workload.batch = 16;
  scenario.workload.context = 131072;
  EXPECT_EQ(value_of(point, "step"), compute_totals(scenario).step.seconds());
  EXPECT_EQ(point.evaluated->capacity.max_batch, compute_capacity(scenario).max_batch);
}

TEST(Sweep, RangesAndLabels) {
  const auto labels = [](const char* text) {
    std::vector<std::string> result;
    for (const AxisPoint& point : parse_axis(text).points) result.push_back(point.label);
    return result;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(labels("batch=1..4"), (Words{"1", "2", "3", "4"}));
  EXPECT_EQ(labels("ep=8..20:log"), (Words{"8", "16", "20"}));
  EXPECT_EQ(labels("ctx=4k..1M:log").size(), 9u);
  EXPECT_EQ(labels("ctx=4k..1M:log").back(), "1M");
  EXPECT_EQ(labels("N=256..512:128"), (Words{"256", "384", "512"}));
  EXPECT_EQ(labels("alpha=1..2,1.75"), (Words{"1", "2", "1.75"}));
  EXPECT_EQ(labels("layout=tp=8|tp=8,dcp=8"), (Words{"tp=8", "tp=8,dcp=8"}));
  EXPECT_EQ(labels("dtype=attn=bf16|attn=int8"), (Words{"attn=bf16", "attn=int8"}));
}

TEST(Sweep, DevicesAreKeptWhereThereAreSo) {
  const Scenario k3 = scenario_of("k3", "b300", "tp=8");
  const Sweep tensor = sweep_of(k3, {"tp=1..8"}, 8);
  EXPECT_EQ(value_of(tensor.points[1], "devices"), 8);
  EXPECT_EQ(tensor.points[1].evaluated->scenario.layout.dp, 4);
  EXPECT_THAT(tensor.points[2].reason, HasSubstr("the nearest that does is 2"));
  const Sweep pipeline = sweep_of(k3, {"pp=1,2"}, 8);
  EXPECT_EQ(pipeline.points[1].evaluated->scenario.layout.tp, 4);
  EXPECT_EQ(value_of(sweep_of(k3, {"tp=1,2"}).points[0], "devices"), 1);
}

TEST(Sweep, WrongAxes) {
  const Scenario k3 = scenario_of("k3", "b300", "tp=8");
  const Scenario gqa = scenario_of("gqa-70b", "h200", "tp=8");
  EXPECT_THAT(error_of(k3, {}), HasSubstr("needs an axis"));
  EXPECT_THAT(error_of(k3, {"btch=1..4"}), HasSubstr("did you mean batch?"));
  EXPECT_THAT(error_of(k3, {"batch"}), HasSubstr("NAME=VALUES"));
  EXPECT_THAT(error_of(k3, {"batch="}), HasSubstr("NAME=VALUES"));
  EXPECT_THAT(error_of(k3, {"batch=1,,2"}), HasSubstr("a value is empty"));
  EXPECT_THAT(error_of(k3, {"batch=8..4"}),
              HasSubstr("the range is empty; the rule is FIRST <= LAST, 4..8"));
  EXPECT_THAT(error_of(k3, {"batch=0..4:log"}), HasSubstr("nearest start is 1"));
  EXPECT_THAT(error_of(k3, {"batch=1..100000"}), HasSubstr("at most 256: FIRST..LAST:log doubles"));
  EXPECT_THAT(error_of(k3, {"batch=0"}), HasSubstr("--batch is 0; it must be at least 1"));
  EXPECT_THAT(error_of(k3, {"batch=1,2,1"}), HasSubstr("1 stands twice"));
  EXPECT_THAT(error_of(k3, {"batch=1", "batch=2"}), HasSubstr("axis batch stands twice"));
  EXPECT_THAT(error_of(k3, {"batch=1..256", "N=16..200"}), HasSubstr("at most 4096"));
  EXPECT_THAT(error_of(k3, {"tp=7"}), HasSubstr("nearest that does is tp=6"));
  EXPECT_THAT(error_of(k3, {"tp=7"}, 8), HasSubstr("nearest that does is 8"));
  EXPECT_THAT(error_of(k3, {"split=512"}), HasSubstr("the form is A:B"));
  EXPECT_THAT(error_of(k3, {"split=0:64"}), HasSubstr("at least 1"));
  EXPECT_THAT(error_of(gqa, {"split=512:64"}), HasSubstr("kv=mla:C+S makes one"));
  EXPECT_THAT(error_of(k3, {"kv=gqq:2x144"}), HasSubstr("gqa:2x144"));
  EXPECT_THAT(error_of(k3, {"kv=gqa:7x144"}), HasSubstr("do not divide H = 96"));
  EXPECT_THAT(error_of(k3, {"mode=ef"}), HasSubstr("did you mean eff?"));
  EXPECT_THAT(error_of(k3, {"alpha=3"}), HasSubstr("nearest that gives one is alpha=2"));
  EXPECT_THAT(error_of(k3, {"alpha=2", "mode=k3"}), HasSubstr("the nearest is k2"));
  EXPECT_THAT(error_of(gqa, {"alpha=2"}), HasSubstr("no routed experts"));
  EXPECT_THAT(error_of(k3, {"alpha=0.5"}), HasSubstr("at least 1"));
  Scenario host = scenario_of("k3", "rtx4090", "experts=host");
  EXPECT_THAT(error_of(host, {"batch=1"}), HasSubstr("the rule is experts=gpu"));
  EXPECT_THROW(find_measure("stp"), Error);
}

}  // namespace
}  // namespace baltoro::plan
