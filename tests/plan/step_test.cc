// Properties of a step: parts add up, devices add up, one device sends nothing, a faster machine is
// never slower; and agreement with the ops' own cost() functions.
#include "plan/step.h"

#include <gtest/gtest.h>

#include "baltoro/error.h"
#include "ops/expert_mlp.h"
#include "plan/explain.h"
#include "plan/inventory.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

const char* const kModels[] = {"k3", "k2", "kimi-linear", "dsv3", "gqa-70b"};

TEST(StepProperties, PartsAddUpToTheTotal) {
  for (const char* model : kModels) {
    Scenario scenario = scenario_of(model, "b200", "tp=8");
    scenario.efficiency = typical_efficiency(scenario.hardware);
    const Step step = compute_step(scenario, decode_step(32, 8192));
    double seconds = 0;
    double flops = 0;
    for (const Part part : kAllParts) {
      seconds += step.time_of(part).seconds();
      flops += step.work_of(part).flops;
    }
    EXPECT_DOUBLE_EQ(step.seconds(), seconds) << model;
    EXPECT_DOUBLE_EQ(step.total().flops, flops) << model;
    EXPECT_GT(seconds, 0);
  }
}

TEST(StepProperties, OneDeviceSendsNothing) {
  for (const char* model : kModels) {
    const Step step = compute_step(scenario_of(model, "b300", "tp=1"), decode_step(4, 4096));
    EXPECT_EQ(step.total().network.bytes(), 0) << model;
    EXPECT_EQ(step.network_seconds(), 0) << model;
  }
}

TEST(StepProperties, DevicesAddUpToTheModelAndItsReplication) {
  // A batch that touches every expert: all weights are read, some by all ranks.
  for (const char* layout :
       {"tp=8", "tp=8,replicate=none", "tp=2,dp=4,ep=8", "tp=8,attn=dp,ep=8", "tp=4,pp=2"}) {
    const Scenario scenario = scenario_of("k3", "b300", layout);
    const Layout& l = scenario.layout;
    const Step step = compute_step(scenario, decode_step(4096, 4096));
    const double devices = static_cast<double>(l.devices());
    for (const Part part : kAllParts) {
      if (part == Part::kMix || part == Part::kEmbed) continue;
      const bool is_mixer = part == Part::kKdaProj || part == Part::kKdaState ||
                            part == Part::kAttnProj || part == Part::kAttnCore;
      double copies = part == Part::kRouted && l.ep > 1 ? 1
                      : is_mixer                        ? static_cast<double>(l.attention_groups())
                                                        : static_cast<double>(l.dp);
      if (part == Part::kLatent && l.replicate_latent) {
        copies = static_cast<double>(l.stage_devices());
      }
      // Over pp stages one device has 1 / pp of the layers.
      const double sum = step.work_of(part).weight_bytes * devices / static_cast<double>(l.pp);
      EXPECT_NEAR(sum, copies * part_bytes(scenario.model, part), 1e-9 * sum + 1)
          << layout << " " << part_name(part);
    }
  }
}

TEST(StepProperties, MoreBandwidthIsNeverSlower) {
  for (const char* layout : {"tp=8", "tp=8,attn=dp,ep=8", "tp=2,pp=4", "tp=8,dcp=8,sp=on"}) {
    for (const char* rates : {"datasheet", "typical"}) {
      Scenario scenario = scenario_of("k3", "h200", layout);
      scenario.efficiency = parse_efficiency(rates, scenario.hardware);
      for (const StepShape& shape :
           {decode_step(1, 131072), decode_step(256, 8192), prefill_step(1, 8192, 0)}) {
        const double before = compute_step(scenario, shape).seconds();
        for (Quantity Hardware::*field :
             {&Hardware::memory_bandwidth, &Hardware::bf16_flops, &Hardware::scale_up_bandwidth,
              &Hardware::scale_out_bandwidth, &Hardware::fp8_flops}) {
          Scenario faster = scenario;
          (faster.hardware.*field).value *= 1.5;
          EXPECT_LE(compute_step(faster, shape).seconds(), before * (1 + 1e-12)) << layout;
        }
      }
    }
  }
}

TEST(StepProperties, OverlapNeverAddsButForReadWeights) {
  Scenario scenario = scenario_of("k3", "h200", "tp=8,attn=dp,ep=8");
  const StepShape large = prefill_step(64, 8192, 0);
  const double none = compute_step(scenario, large).seconds();
  for (const char* name : {"shared", "fused", "0.5", "1", "tbo"}) {
    scenario.workload.overlap = parse_overlap(name);
    EXPECT_LT(compute_step(scenario, large).seconds(), none) << name;
  }
  // Two half batches read their experts twice: a loss where those bytes are the time.
  const StepShape small = decode_step(512, 8192);
  scenario.workload.overlap = parse_overlap("none");
  const Step whole = compute_step(scenario, small);
  scenario.workload.overlap = parse_overlap("tbo");
  const Step halves = compute_step(scenario, small);
  EXPECT_GT(halves.work_of(Part::kRouted).weight_bytes,
            1.9 * whole.work_of(Part::kRouted).weight_bytes);
  EXPECT_GT(halves.seconds(), whole.seconds());
}

TEST(StepProperties, ExampleOfTheDesign) {
  // 8 B300, tp=8, batch 1: GFLOP, GB and MB of one GPU.
  const Step step = compute_step(scenario_of("k3", "b300", "tp=8"), decode_step(1, 8192));
  const PartWork& kda = step.work_of(Part::kKdaProj);
  EXPECT_NEAR(kda.flops / 1e9, 7.7, 0.05);
  EXPECT_NEAR(kda.weight_bytes / 1e9, 7.7, 0.06);
  EXPECT_NEAR(kda.network.bytes() / 1e6, 0.9, 0.05);
  EXPECT_NEAR(step.time_of(Part::kKdaProj).memory * 1e3, 0.96, 0.005);
  const PartWork& latent = step.work_of(Part::kLatent);
  EXPECT_NEAR(latent.flops / 1e9, 9.5, 0.05);
  EXPECT_NEAR(latent.weight_bytes / 1e9, 9.5, 0.05);
  EXPECT_EQ(latent.network.bytes(), 0);
  EXPECT_NEAR(step.time_of(Part::kLatent).memory * 1e3, 1.18, 0.005);
  const PartWork& routed = step.work_of(Part::kRouted);
  EXPECT_NEAR(routed.flops / 1e9, 12.2, 0.05);
  EXPECT_NEAR(routed.weight_bytes / 1e9, 3.2, 0.05);
  EXPECT_NEAR(routed.network.bytes() / 1e6, 1.2, 0.05);
  EXPECT_NEAR(step.time_of(Part::kRouted).memory * 1e3, 0.40, 0.01);
}

TEST(StepAgrees, WithTheCostOfTheOps) {
  // Weights by the plan's formats are the bytes that the op counts for the stored form.
  const Scenario scenario = scenario_of("k3", "b300", "tp=1");
  const WeightView up{nullptr, nullptr, WeightFormat::kMxfp4, 3072, 3584};
  const WeightView down{nullptr, nullptr, WeightFormat::kMxfp4, 3584, 3072};
  const Cost cost = expert_mlp_cost(1, 16, 16, {up, up, down});
  const Step step = compute_step(scenario, decode_step(1, 8192));
  EXPECT_NEAR(step.work_of(Part::kRouted).weight_bytes, 92 * cost.weight_bytes, 1);
  EXPECT_DOUBLE_EQ(step.work_of(Part::kRouted).flops, 92 * cost.flops);
  EXPECT_EQ(92 * cost.weight_bytes, 25'829'572'608);
  Scenario f32 = scenario;
  f32.model.formats.conv = Format::kF32;
  const Cost kda = kda_mix_cost(kda_shape(f32.model.config.kda), 1, 1, DType::kBf16);
  const Step exact = compute_step(f32, decode_step(1, 8192));
  EXPECT_DOUBLE_EQ(exact.work_of(Part::kKdaState).cache_bytes, 69 * kda.state_bytes);
  EXPECT_DOUBLE_EQ(exact.work_of(Part::kKdaState).flops, 69 * kda.flops);
  const Cost mla = mla_decode_cost(mla_shape(f32.model.config.mla), 8191, DType::kBf16, DType::kU8);
  EXPECT_DOUBLE_EQ(exact.work_of(Part::kAttnCore).cache_bytes, 24 * mla.state_bytes);
  EXPECT_DOUBLE_EQ(exact.work_of(Part::kAttnCore).flops, 24 * mla.flops);
}

TEST(StepVerify, OneRowIsDecodeAndMoreReadTheCacheOnce) {
  Scenario scenario = scenario_of("k3", "b300", "tp=8");
  scenario.workload.phase = Phase::kVerify;
  scenario.workload.draft = 0;
  scenario.workload.accepted = 1;
  const Step one = compute_step(scenario, table_step(scenario.workload));
  const Step decode = compute_step(scenario, decode_step(1, 8192));
  EXPECT_DOUBLE_EQ(one.seconds(), decode.seconds());
  scenario.workload.draft = 7;
  const Step eight = compute_step(scenario, table_step(scenario.workload));
  EXPECT_DOUBLE_EQ(eight.work_of(Part::kAttnCore).cache_bytes,
                   decode.work_of(Part::kAttnCore).cache_bytes);
  EXPECT_GT(eight.work_of(Part::kRouted).weight_bytes,
            7 * decode.work_of(Part::kRouted).weight_bytes);
}

TEST(StepPrefill, ChunksReExpandThePast) {
  Scenario scenario = scenario_of("k3", "b300", "tp=8");
  scenario.workload.input = 32768;
  const double whole = prefill_seconds(scenario);
  scenario.workload.chunk = 2048;
  EXPECT_GT(prefill_seconds(scenario), whole);  // weights and cache are read for every chunk
  const Step last = compute_step(scenario, prefill_step(1, 2048, 30720));
  EXPECT_GT(last.work_of(Part::kAttnCore).executed_flops, last.work_of(Part::kAttnCore).flops);
}

TEST(StepPipeline, FillsOnceAndThenAMicrobatchLeavesEveryStage) {
  Scenario scenario = scenario_of("k3", "gb200", "pp=16");
  scenario.workload.input = 8192;
  const double one = prefill_seconds(scenario);
  scenario.workload.prompts = 16;
  // Sixteen prompts: the last is done after 15 more times a stage.
  EXPECT_NEAR(prefill_seconds(scenario), one * (1 + 15.0 / 16), 1e-9);
  // One prompt beside 32 sequences: each of 4 microbatches has a quarter of its rows.
  StepShape mixed = decode_step(32, 4096);
  mixed.prompts = 1;
  mixed.prompt_tokens = 2048;
  const Microbatch microbatch = microbatch_of(mixed, parse_layout("pp=4"));
  EXPECT_EQ(microbatch.count, 4);
  EXPECT_EQ(microbatch.shape.tokens() * 4, mixed.tokens());
}

TEST(StepLayout, RanksWithTheirOwnRowsDoAllOfThem) {
  // FLOPs of all devices are those of the tokens, however matrices and rows are cut.
  const StepShape shape = decode_step(64, 4096);
  const double whole = compute_step(scenario_of("k3", "b300", "tp=1"), shape).total().flops;
  for (const char* layout : {"tp=8,replicate=none,sp=on", "tp=8,attn=dp,ep=8,replicate=none",
                             "dp=8,ep=8", "tp=2,dp=4,ep=8,replicate=none,sp=on"}) {
    const Scenario scenario = scenario_of("k3", "b300", layout);
    const double sum = 8 * compute_step(scenario, shape).total().flops;
    EXPECT_NEAR(sum / whole, 1, 0.001) << layout;
  }
}

TEST(StepLayout, CacheOfSeveralHeadsIsCutByThem) {
  const auto bytes = [](const char* layout) {
    const Scenario scenario = scenario_of("gqa-70b", "h100", layout);
    return compute_step(scenario, decode_step(16, 8192)).work_of(Part::kAttnCore).cache_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes("tp=1"), 8 * bytes("tp=8"));
  EXPECT_DOUBLE_EQ(bytes("tp=1"), 8 * bytes("tp=16"));  // 8 heads, each on two ranks
  EXPECT_DOUBLE_EQ(bytes("tp=1"), 16 * bytes("tp=16,dcp=2"));
}

TEST(StepExplained, EveryPartOrWhyNot) {
  for (const char* model : kModels) {
    const Scenario scenario = scenario_of(model, "b200", "tp=2,pp=2");
    const Step step = compute_step(scenario, decode_step(4, 4096));
    for (const Part part : kAllParts) {
      if (step.work_of(part).bytes() == 0 && step.time_of(part).seconds() == 0) {
        EXPECT_THROW(explain(scenario, step, part), Error) << part_name(part);
        continue;
      }
      const Explanation text = explain(scenario, step, part);
      EXPECT_FALSE(text.source.empty());
      ASSERT_FALSE(text.terms.empty());
      EXPECT_EQ(text.terms.back().name, "time");
    }
  }
}

}  // namespace
}  // namespace baltoro::plan
