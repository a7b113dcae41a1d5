// Wrong input: an error that names the thing, the rule broken and the nearest valid value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/key_value.h"
#include "plan/offload.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

using testing::HasSubstr;

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

std::string layout_error(const char* model, const char* layout) {
  return error_of([&] { check_layout(parse_layout(layout), preset_model(model)); });
}

std::string override_error(const char* model, const char* text) {
  return error_of([&] {
    PlanModel changed = preset_model(model);
    apply_overrides(changed, text);
  });
}

TEST(PlanErrors, ImpossibleLayouts) {
  EXPECT_THAT(layout_error("k3", "tp=7"),
              HasSubstr("tp=7 does not divide the 96 KDA heads; the nearest that does is tp=6"));
  EXPECT_THAT(layout_error("gqa-70b", "tp=12"), HasSubstr("64 attention heads"));
  EXPECT_THAT(layout_error("k3", "tp=8,dcp=3"), HasSubstr("nearest that does is dcp=2"));
  EXPECT_THAT(layout_error("k3", "tp=8,ep=5"), HasSubstr("ep=4"));
  EXPECT_THAT(layout_error("gqa-70b", "tp=8,ep=8"), HasSubstr("without experts"));
  EXPECT_THAT(layout_error("k3", "pp=94"), HasSubstr("at most pp=93"));
  EXPECT_THAT(layout_error("k3", "redundant=8"), HasSubstr("ep > 1"));
  EXPECT_THAT(layout_error("k3", "tp=8,ep=8,redundant=5"),
              HasSubstr("896 + 5 experts do not divide over ep=8 ranks; the nearest that do is "
                        "redundant=8"));
  EXPECT_THAT(layout_error("k3", "tp=8,ep=8,redundant=9"), HasSubstr("is redundant=8"));
  EXPECT_EQ(layout_error("k3", "tp=8,ep=8,redundant=8"), "no error");
  EXPECT_THAT(layout_error("k3", "sp=on"), HasSubstr("tp > 1"));
  // Each of several is named.
  EXPECT_THAT(layout_error("k3", "tp=7,pp=100"),
              testing::AllOf(HasSubstr("tp=7"), HasSubstr("pp=100")));
  EXPECT_THAT(layout_error("k3", "tp=0"), HasSubstr("tp is 0; it must be at least 1"));
  EXPECT_THAT(layout_error("k3", "tp=-8"), HasSubstr("at least 1"));
  EXPECT_THAT(layout_error("k3", "tp=x"), HasSubstr("whole number"));
  EXPECT_THAT(layout_error("k3", "tpp=8"), HasSubstr("did you mean tp?"));
  EXPECT_THAT(layout_error("k3", "tp=8,tp=4"), HasSubstr("tp stands twice"));
  EXPECT_THAT(layout_error("k3", "attn=ep"), HasSubstr("known: tp, dp"));
  EXPECT_THAT(layout_error("k3", "tp"), HasSubstr("key=value"));
  EXPECT_THAT(layout_error("k3", "tp=8, ep=8"), HasSubstr("\" ep=8\": without spaces"));
}

TEST(PlanErrors, UnknownNames) {
  EXPECT_THAT(error_of([] { preset_model("k33"); }), HasSubstr("did you mean k3?"));
  EXPECT_THAT(error_of([] { preset_hardware("h2000"); }), HasSubstr("did you mean h200?"));
  EXPECT_THAT(error_of([] { preset_hardware("0xh200"); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([] { preset_hardware("70000xh200"); }), HasSubstr("at most 65536"));
  for (const char* machine : {"8x", "h200x8", "8 x h200", "-8xh200", "8xh200,8xb200"}) {
    EXPECT_THAT(error_of([&] { preset_hardware(machine); }),
                testing::AllOf(HasSubstr(std::string("--hw ") + machine + ": no such machine"),
                               HasSubstr("COUNTxNAME, 8xh200")));
  }
  EXPECT_THAT(error_of([] { parse_part("rooted"); }), HasSubstr("did you mean routed?"));
  EXPECT_THAT(error_of([] { parse_phase("decod"); }), HasSubstr("did you mean decode?"));
  EXPECT_THAT(error_of([] { parse_overlap("two"); }), HasSubstr("tbo"));
  EXPECT_THAT(error_of([] { parse_dedup("ranks"); }), HasSubstr("did you mean rank?"));
  EXPECT_THAT(error_of([] { parse_efficiency("typicl", Hardware()); }),
              HasSubstr("did you mean typical?"));
  EXPECT_THAT(error_of([] { parse_routing("hipf"); }), HasSubstr("zipf:S"));
  EXPECT_THAT(error_of([] { parse_routing("zipf:"); }), HasSubstr("the form is zipf:S, zipf:0.3"));
  EXPECT_THAT(error_of([] {
                Formats formats;
                apply_formats(formats, "routd=mxfp4");
              }),
              HasSubstr("did you mean routed?"));
  EXPECT_THAT(error_of([] {
                Formats formats;
                apply_formats(formats, "routed=fp5");
              }),
              HasSubstr("--dtype routed=fp5: no such format"));
}

TEST(PlanErrors, Overrides) {
  EXPECT_THAT(override_error("k3", "moe_intermediat_size=5"),
              HasSubstr("did you mean moe_intermediate_size?"));
  EXPECT_THAT(override_error("k3", "m=-1"), HasSubstr("at least 1"));
  EXPECT_THAT(override_error("k3", "K=900"), HasSubstr("K = 900 exceeds N = 896"));
  EXPECT_THAT(override_error("k2", "ratio=3"), HasSubstr("without KDA sizes"));
  EXPECT_THAT(override_error("gqa-70b", "dense_layers=1"), HasSubstr("set N, K and m"));
  EXPECT_THAT(override_error("gqa-70b", "G=7"), HasSubstr("do not divide H = 64"));
}

TEST(PlanErrors, WhatWouldHaveNoEffect) {
  Scenario dense;
  dense.model = preset_model("gqa-70b");
  dense.workload.routing = parse_routing("zipf:1");
  EXPECT_THAT(error_of([&] { check_scenario(dense); }), HasSubstr("the rule is uniform"));
  Workload workload;
  check_offload(workload);
  workload.batch = 64;
  EXPECT_THAT(error_of([&] { check_offload(workload); }),
              HasSubstr("the rule is --phase decode, -b 1"));
}

TEST(PlanErrors, Numbers) {
  Workload workload;
  workload.batch = 0;
  workload.cached = 8192;
  EXPECT_THAT(error_of([&] { check_workload(workload); }),
              testing::AllOf(HasSubstr("--batch is 0"), HasSubstr("at most 8191")));
  EXPECT_THAT(error_of([] { parse_length("--ctx", "-8k"); }),
              HasSubstr("-8k; it must be at least 0"));
  EXPECT_THAT(error_of([] { parse_length("--ctx", "0", 1); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([] { parse_length("--ctx", "8kk"); }),
              HasSubstr("\"8kk\"; it must be a whole"));
  EXPECT_THAT(error_of([] { parse_length("--ctx", "1e30"); }), HasSubstr("from 0 to 4294967296"));
  EXPECT_THAT(error_of([] { parse_length("--ctx", "4097M"); }), HasSubstr("at most 4294967296"));
  EXPECT_THAT(error_of([] { parse_overlap("1.5"); }), HasSubstr("at most 1"));
  EXPECT_THAT(error_of([] { popularity(histogram_routing("1 2 3", "h.txt"), 4, 2); }),
              HasSubstr("h.txt: 3 counts for a model of 4 experts"));
  EXPECT_THAT(error_of([] { popularity(histogram_routing("1 0 0 0", "h.txt"), 4, 2); }),
              HasSubstr("a token needs 2"));
  EXPECT_THAT(error_of([] { histogram_routing("1 -2", "h.txt"); }), HasSubstr("h.txt: count 1"));
  Hardware machine;
  const auto set = [&](const char* key, double value) {
    return error_of([&] { set_hardware(machine, key, value, Provenance::kUser, "x.json"); });
  };
  EXPECT_THAT(set("memory_bandwidth", 1e-300), HasSubstr("0 or from 1 to 1e+21"));
  EXPECT_THAT(set("bf16_flops", 1e300), HasSubstr("0 or from 1 to 1e+21"));
  EXPECT_THAT(set("layer_seconds", 1e9), HasSubstr("0 or from 0 to 10"));
  EXPECT_THAT(set("scale_up_domain", 2.5), HasSubstr("a whole number from 1"));
  EXPECT_THAT(
      error_of([&] { set_hardware(machine, "memory_bandwith", 1, Provenance::kUser, "x.json"); }),
      HasSubstr("did you mean memory_bandwidth?"));
  EXPECT_THAT(
      error_of([&] { set_hardware(machine, "memory_bandwidth", -1, Provenance::kUser, "x.json"); }),
      HasSubstr("at least 0"));
}

}  // namespace
}  // namespace baltoro::plan
