// Two scenarios: every change is named, and the factors of a part multiply to its change.
#include "plan/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

using testing::HasSubstr;

Scenario estimate_of(const char* model, const char* hardware, const char* layout,
                     std::int64_t batch = 1) {
  Scenario scenario = scenario_of(model, hardware, layout);
  scenario.efficiency = typical_efficiency(scenario.hardware);
  scenario.workload.batch = batch;
  return scenario;
}

const PartChange& change_of(const Comparison& comparison, Part part) {
  for (const PartChange& change : comparison.parts) {
    if (change.part == part) return change;
  }
  throw std::runtime_error(part_name(part));
}

std::string change_text(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) {
    text += change.what + " " + change.before + " -> " + change.after + "\n";
  }
  return text;
}

TEST(Compare, FactorsMultiplyToTheChange) {
  std::vector<Comparison> comparisons = {
      compare(estimate_of("k2", "h200", "tp=16", 64), estimate_of("k3", "h200", "tp=16", 64)),
      compare(estimate_of("k3", "h200", "tp=16"), estimate_of("k3", "b300", "tp=8,dcp=8", 32)),
      compare(estimate_of("k3", "gb200", "tp=8,attn=dp,ep=8", 64),
              estimate_of("k3-no-latent", "gb200", "tp=8", 64)),
      compare(estimate_of("kimi-linear", "h200", "tp=1"), estimate_of("dsv3", "h200", "tp=8"))};
  Scenario prefill = estimate_of("k3", "h200", "tp=16");
  prefill.workload.phase = Phase::kPrefill;
  Scenario other = prefill;
  other.hardware = preset_hardware("b300").hardware;
  other.efficiency = typical_efficiency(other.hardware);
  other.layout = parse_layout("tp=8");
  comparisons.push_back(compare(prefill, other));
  for (const Comparison& c : comparisons) {
    int explained = 0;
    for (const PartChange& change : c.parts) {
      if (change.kind == WorkKind::kNothing || change.factors.empty()) continue;
      double product = 1;
      for (const Factor& factor : change.factors) product *= factor.ratio();
      const double ratio = amount(c.b.totals.step, change.part, change.kind) /
                           amount(c.a.totals.step, change.part, change.kind);
      EXPECT_NEAR(product / ratio, 1, 1e-5) << part_name(change.part) << " " << why(c, change);
      ++explained;
    }
    EXPECT_GT(explained, 3);
  }
}

TEST(Compare, K2AndK3) {
  const Comparison c =
      compare(estimate_of("k2", "h200", "tp=16", 64), estimate_of("k3", "h200", "tp=16", 64));
  const std::string changes = change_text(c.changes);
  for (const char* line :
       {"L layers 61 -> 93\n", "N 384 -> 896\n", "K 8 -> 16\n", "l 7168 -> 3584\n",
        "m 2048 -> 3072\n", "n_s 1 -> 2\n", "R - -> 12\n", "routed format fp8 -> mxfp4\n"}) {
    EXPECT_THAT(changes, HasSubstr(line));
  }
  EXPECT_THAT(changes, testing::Not(HasSubstr("machine")));
  const PartChange& routed = change_of(c, Part::kRouted);
  EXPECT_EQ(routed.kind, WorkKind::kWeights);
  const std::string text = why(c, routed);
  EXPECT_THAT(text, HasSubstr("experts met 284.2 -> 613.2"));
  EXPECT_THAT(text, HasSubstr("m 2048 -> 3072"));
  // 92/60 x 613.2/284.2 x 1/2 x 3/2 x 0.53125: all that is said explains it.
  EXPECT_THAT(text, testing::Not(HasSubstr("share")));
  EXPECT_EQ(why(c, change_of(c, Part::kKdaState)), "cache only in B");
  EXPECT_EQ(change_of(c, Part::kHead).kind, WorkKind::kNothing);
}

TEST(Compare, TheLargestChangeComesFirst) {
  const Comparison c =
      compare(estimate_of("k2", "h200", "tp=16"), estimate_of("k3", "h200", "tp=16"));
  double last = 1e9;
  double sum = 0;
  for (const PartChange& change : c.parts) {
    const double delta = c.b.totals.step.time_of(change.part).seconds() -
                         c.a.totals.step.time_of(change.part).seconds();
    EXPECT_LE(std::abs(delta), last);
    last = std::abs(delta);
    sum += delta;
  }
  EXPECT_NEAR(sum, c.b.totals.step.seconds() - c.a.totals.step.seconds(), 1e-9);
}

TEST(Compare, WhatChangedIsWhatIsExplained) {
  const Scenario k3 = estimate_of("k3", "b300", "tp=8");
  Scenario int8 = k3;
  apply_formats(int8.model.formats, "attn=int8");
  const Comparison c = compare(k3, int8);
  EXPECT_EQ(change_text(c.changes), "attn format bf16 -> int8\n");
  EXPECT_EQ(why(c, change_of(c, Part::kKdaProj)), "weights x 0.5: B a weight 2 -> 1");
  // Its messages take longer than its weights, and are the same.
  EXPECT_EQ(change_of(c, Part::kAttnProj).kind, WorkKind::kWeights);
  EXPECT_TRUE(compare(k3, k3).changes.empty());
  Scenario b200 = k3;
  b200.hardware = preset_hardware("b200").hardware;
  EXPECT_THAT(change_text(changes_between(k3, b200)), HasSubstr("machine B300 -> B200"));
}

}  // namespace
}  // namespace baltoro::plan
