// Knees, FLOPs a token, the serial scan and the decode rooflines of docs/cost-model.md.
#include <gtest/gtest.h>

#include <cmath>

#include "plan/inventory.h"
#include "plan/knee_formulas.h"
#include "plan/scan.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

struct KneeRow {
  double weight_bytes, flops, bandwidth, tau, k2, k3;  // thousands of tokens
};

TEST(ExpertKnee, TableOfMachines) {
  const double mxfp4 = format_bytes(Format::kMxfp4);
  for (const KneeRow& row : {
           KneeRow{mxfp4, 989e12, 4.8e12, 55, 2.6, 3.1},
           {1, 1979e12, 4.8e12, 206, 9.9, 11.5},
           {1, 1979e12, 3.35e12, 295, 14.2, 16.5},
           {mxfp4, 4.5e15, 8e12, 149, 7.2, 8.4},
           {mxfp4, 5e15, 8e12, 166, 8.0, 9.3},
           {format_bytes(Format::kNvfp4), 10e15, 8e12, 352, 16.9, 19.7},
           {mxfp4, 5.033e15, 8e12, 167, 8.0, 9.4},
           {mxfp4, 0.21e15, 1.792e12, 31, 1.5, 1.7},
           {mxfp4, 28.4e12, 0.819e12, 9, 0.4, 0.5},
       }) {
    const double tau = expert_knee(row.weight_bytes, row.flops, row.bandwidth);
    EXPECT_NEAR(tau, row.tau, 0.6);
    EXPECT_NEAR(tau * 384 / 8 / 1000, row.k2, 0.055);
    EXPECT_NEAR(tau * 896 / 16 / 1000, row.k3, 0.055);
  }
}

TEST(ExpertKnee, ActivationsMoveIt) {
  const auto correction = [](double flops, double bandwidth, double values) {
    return expert_knee_with_rows(1, flops / bandwidth, 2 * values, 6 * 3584.0 * 3072);
  };
  EXPECT_NEAR(correction(989e12, 4.8e12, 2 * 3584 + 3 * 3072), 1.11, 0.01);
  EXPECT_NEAR(correction(4.5e15, 8e12, 2 * 3584 + 3 * 3072), 1.39, 0.01);
  EXPECT_NEAR(correction(989e12, 4.8e12, 2 * 3584), 1.05, 0.01);
  EXPECT_NEAR(correction(4.5e15, 8e12, 2 * 3584), 1.14, 0.01);
}

TEST(VerifyKnee, ExpandedAttentionWinsAbove) {
  EXPECT_NEAR(absorbed_limit(mla_shape(preset_model("k3").config.mla)), 170.7, 0.05);
}

// FLOPs of one token in decode at a context, of all layers, on one device.
double decode_flops(const Scenario& scenario, std::int64_t context) {
  return compute_step(scenario, decode_step(1, context)).total().flops;
}

struct FlopsRow {
  const char* model;
  double linear, core_8k, core_128k, core_1m;  // GFLOP
};

TEST(FlopsPerToken, DecodeTable) {
  for (const FlopsRow& row :
       {FlopsRow{"k3", 208.4, 41.1, 657, 5257}, {"k2", 63.4, 69.6, 1113, 8908}}) {
    const Scenario scenario = scenario_of(row.model, "b300", "tp=1");
    EXPECT_NEAR(2 * active_parameters(scenario.model) / 1e9, row.linear, 0.05);
    const double layer = static_cast<double>(scenario.model.num_attn());
    const double kv_b = 2 * layer * attention_parameters(scenario.model).core;
    const auto core = [&](std::int64_t context) {
      const Step step = compute_step(scenario, decode_step(1, context));
      return (step.work_of(Part::kAttnCore).flops - kv_b) / 1e9;
    };
    EXPECT_NEAR(core(8192), row.core_8k, 0.06);
    EXPECT_NEAR(core(131072), row.core_128k, 0.6);
    EXPECT_NEAR(core(1048576), row.core_1m, 0.6);
  }
  // All parts together: 250 and 133; norms and mixes are the rest.
  EXPECT_NEAR(decode_flops(scenario_of("k3", "b300", "tp=1"), 8192) / 1e9, 250.3, 0.4);
  EXPECT_NEAR(decode_flops(scenario_of("k2", "b300", "tp=1"), 8192) / 1e9, 133, 0.3);
}

TEST(FlopsPerToken, PrefillTable) {
  struct Row {
    const char* model;
    double state, core;
  };
  for (const Row& row : {Row{"k3", 0.84, 6.0}, {"kimi-linear", 0.08, 0.6}}) {
    const Scenario scenario = scenario_of(row.model, "b300", "tp=1");
    const Step step = compute_step(scenario, prefill_step(1, 8192, 0));
    const double kda = static_cast<double>(scenario.model.num_kda());
    const double conv = 2 * kda * kda_parameters(scenario.model).core;
    EXPECT_NEAR((step.work_of(Part::kKdaState).executed_flops / 8192 - conv) / 1e9, row.state,
                0.005);
    const double kv_b = 2 * static_cast<double>(scenario.model.num_attn()) *
                        attention_parameters(scenario.model).core;
    EXPECT_NEAR((step.work_of(Part::kAttnCore).flops / 8192 - kv_b) / 1e9, row.core, 0.05);
  }
  const Step decode = compute_step(scenario_of("k3", "b300", "tp=1"), decode_step(1, 8192));
  const double conv = 2 * 69 * kda_parameters(preset_model("k3")).core;
  EXPECT_NEAR((decode.work_of(Part::kKdaState).flops - conv) / 1e9, 0.76, 0.005);
}

struct ScanRow {
  double heads;
  std::int64_t sequences;
  double processors, chunk_us, milliseconds, tolerance;
};

TEST(SerialScan, FlashKdasEightPoints) {
  for (const ScanRow& row : {
           ScanRow{96, 1, 152, 7.5, 1.009, 0.05},
           {96, 8, 152, 7.5, 0.706, 0.05},
           {64, 1, 152, 7.5, 0.925, 0.05},
           {64, 8, 152, 7.5, 0.481, 0.05},
           {96, 1, 78, 11.5, 2.622, 0.15},
           {96, 8, 78, 11.5, 2.043, 0.15},
           {64, 1, 78, 11.5, 1.622, 0.15},
           {64, 8, 78, 11.5, 1.395, 0.15},
       }) {
    const double ms = 1e3 * scan_seconds(row.heads, row.sequences, 8192 / row.sequences,
                                         row.processors, row.chunk_us * 1e-6);
    EXPECT_NEAR(ms / row.milliseconds, 1, row.tolerance) << row.heads << " " << row.sequences;
  }
  // The presets have these constants.
  EXPECT_EQ(preset_hardware("gb200").hardware.processors.value, 152);
  EXPECT_DOUBLE_EQ(preset_hardware("gb200").hardware.scan_chunk_seconds.value, 7.5e-6);
  EXPECT_EQ(preset_hardware("h20").hardware.processors.value, 78);
  EXPECT_DOUBLE_EQ(preset_hardware("h20").hardware.scan_chunk_seconds.value, 11.5e-6);
}

TEST(SerialScan, TensorParallelismDoesNotShortenIt) {
  const auto scan = [](const char* layout) {
    const Scenario scenario = scenario_of("k3", "gb200", layout);
    return compute_step(scenario, prefill_step(1, 8192, 0)).time_of(Part::kKdaState).scan;
  };
  EXPECT_NEAR(scan("tp=1"), 69e-3, 0.05 * 69e-3);
  EXPECT_DOUBLE_EQ(scan("tp=1"), scan("tp=8"));
}

struct BytesRow {
  std::int64_t batch, context;
  double rest, routed, state, cache, total;  // GB
};

TEST(WhereTheBytesGo, K3Decode) {
  Scenario scenario = scenario_of("k3", "b300", "tp=1");
  for (const BytesRow& row : {
           BytesRow{1, 8192, 111.1, 25.8, 0.9, 0.1, 138},
           {16, 8192, 111.1, 362, 14.4, 1.8, 490},
           {64, 8192, 111.1, 990, 57.5, 7.2, 1166},
           {64, 131072, 111.1, 990, 57.5, 116, 1275},
           {256, 8192, 111.1, 1432, 230, 29, 1802},
           {256, 131072, 111.1, 1432, 230, 464, 2237},
           {1024, 8192, 111.1, 1446, 920, 116, 2594},
           {1024, 1048576, 111.1, 1446, 920, 14843, 17321},
       }) {
    const Step step = compute_step(scenario, decode_step(row.batch, row.context));
    const double routed = step.work_of(Part::kRouted).weight_bytes / 1e9;
    const double state = step.work_of(Part::kKdaState).cache_bytes / 1e9;
    const double cache = step.work_of(Part::kAttnCore).cache_bytes / 1e9;
    const double rest = rest_bytes(scenario.model) / 1e9;
    EXPECT_NEAR(rest, row.rest, 0.05);
    EXPECT_NEAR(routed, row.routed, row.routed > 100 ? 0.6 : 0.06) << row.batch;
    EXPECT_NEAR(state, row.state, row.state > 100 ? 0.6 : 0.06) << row.batch;
    EXPECT_NEAR(cache, row.cache, row.cache > 100 ? 0.6 : 0.06) << row.batch;
    EXPECT_NEAR(rest + routed + state + cache, row.total, 0.8) << row.batch;
    // What the table of a step counts as weights is that, and the rows of the embedding and norms.
    EXPECT_NEAR((step.total().weight_bytes) / 1e9, rest + routed, 0.06) << row.batch;
  }
}

// Milliseconds of the weights of parts, and of all that is cached, at the machine's bandwidth.
struct Roofline {
  double dense = 0, routed = 0, state = 0, cache = 0;
  double sum() const { return dense + routed + state + cache; }
};
Roofline roofline_of(const Scenario& scenario, std::int64_t batch, std::int64_t context) {
  const Step step = compute_step(scenario, decode_step(batch, context));
  const double per_ms = scenario.hardware.memory_bandwidth.value / 1e3;
  Roofline result;
  for (const Part part : kAllParts) {
    const PartWork& work = step.work_of(part);
    if (part == Part::kMix || part == Part::kEmbed) continue;  // activations are left out there
    (part == Part::kRouted ? result.routed : result.dense) += work.weight_bytes / per_ms;
    (part == Part::kKdaState ? result.state : result.cache) += work.cache_bytes / per_ms;
  }
  return result;
}

struct RooflineRow {
  const char* model;
  const char* hardware;
  const char* layout;
  const char* formats;
  std::int64_t batch;
  double dense, routed, state, cache, sum;
};

TEST(DecodeRoofline, PublicServingPoints) {
  for (const RooflineRow& row : {
           RooflineRow{"k3", "b300", "tp=8", "kv=fp8", 1, 2.77, 0.40, 0.01, 0.02, 3.2},
           {"k3", "b300", "tp=8", "kv=fp8", 16, 2.77, 5.66, 0.22, 0.24, 8.9},
           {"k3", "b300", "tp=8", "kv=fp8", 64, 2.77, 15.5, 0.90, 0.96, 20.1},
           {"k3", "gb300", "tp=16", "kv=fp8", 1, 1.98, 0.20, 0.01, 0.02, 2.2},
           {"k2.5", "h200", "tp=8", "kv=bf16", 4, 0.55, 1.20, 0, 0.51, 2.3},
           {"k2.5", "h200", "tp=8", "kv=bf16", 64, 0.55, 11.0, 0, 8.16, 19.7},
           {"k2.5", "b200", "tp=4", "kv=fp8,routed=nvfp4", 4, 0.66, 1.44, 0, 0.15, 2.3},
           {"k2.5", "b200", "tp=4", "kv=fp8,routed=nvfp4", 64, 0.66, 13.2, 0, 2.45, 16.3},
       }) {
    Scenario scenario = scenario_of(row.model, row.hardware, row.layout);
    apply_formats(scenario.model.formats, row.formats);
    const Roofline got = roofline_of(scenario, row.batch, 8704);
    const auto tolerance = [](double value) { return value > 9.99 ? 0.051 : 0.0061; };
    EXPECT_NEAR(got.dense, row.dense, tolerance(row.dense)) << row.model << row.batch;
    EXPECT_NEAR(got.routed, row.routed, tolerance(row.routed)) << row.model << row.batch;
    EXPECT_NEAR(got.state, row.state, tolerance(row.state)) << row.model << row.batch;
    EXPECT_NEAR(got.cache, row.cache, tolerance(row.cache)) << row.model << row.batch;
    EXPECT_NEAR(got.sum(), row.sum, 0.051) << row.model << row.batch;
  }
}

TEST(KimiLinear, ScanExplainsThePrefillGain) {
  // Public figures: pure MLA 66 s at 1 M tokens, Kimi Linear 23 s, 2.9x stated.
  Scenario linear = scenario_of("kimi-linear", "h20", "tp=1");
  Scenario pure = linear;
  apply_overrides(pure.model, "ratio=0");
  const StepShape prompt = prefill_step(1, 1048576, 0);
  const Step with = compute_step(linear, prompt);
  const double mla_flops = compute_step(pure, prompt).total().flops;
  EXPECT_NEAR(mla_flops / 1e15, 311, 2);
  const double rate = mla_flops / 66;
  EXPECT_NEAR(with.total().executed_flops / rate, 18.2, 0.3);
  const double scan = 20 * 16384 * 12e-6;
  EXPECT_NEAR(66 / (with.total().executed_flops / rate + scan), 3.0, 0.05);
}

}  // namespace
}  // namespace baltoro::plan
