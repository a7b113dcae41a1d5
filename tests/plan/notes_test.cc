// The statements of the founding notes that can be computed, and their corrections
// (docs/cost-model.md).
#include <gtest/gtest.h>

#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/knees.h"
#include "plan/moe_line.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

double routed_flops_per_layer(const PlanModel& model) {
  return 2 * real(model.config.moe.experts_per_token) * expert_parameters(model);
}

PlanModel changed(const char* model, const char* text) {
  PlanModel result = preset_model(model);
  apply_overrides(result, text);
  return result;
}

TEST(Notes, RoutedWidthIsConservedAndTheInnerWidthIsNot) {
  const PlanModel k2 = preset_model("k2");
  const PlanModel k3 = preset_model("k3");
  EXPECT_EQ(k2.config.moe.experts_per_token * k2.expert_width(), 57'344);
  EXPECT_EQ(k3.config.moe.experts_per_token * k3.expert_width(), 57'344);
  EXPECT_NEAR(routed_flops_per_layer(k2) / 1e6, 705, 0.5);
  EXPECT_NEAR(routed_flops_per_layer(k3) / 1e6, 1057, 0.5);
  EXPECT_DOUBLE_EQ(routed_flops_per_layer(k3) / routed_flops_per_layer(k2), 1.5);
  EXPECT_NEAR(routed_flops_per_layer(k3) * 92 / 1e9, 97, 0.5);
  EXPECT_NEAR(routed_flops_per_layer(k2) * 60 / 1e9, 42, 0.5);
  const auto resident = [](const PlanModel& m) {
    return real(m.config.moe.num_experts) * expert_parameters(m);
  };
  EXPECT_NEAR(resident(k3) / resident(k2), 1.75, 1e-9);
  EXPECT_NEAR(896.0 / 384, 2.33, 0.005);
  EXPECT_EQ(k3.config.hidden_size, 7168);  // 7167 in one place of the notes
  // Shared experts are 3 times as wide.
  EXPECT_EQ(k3.config.moe.shared_ffn_size(), 3 * k2.config.moe.shared_ffn_size());
  // The inner activations scale with K m.
  EXPECT_EQ(16 * k3.config.moe.expert_ffn_size, 49'152);
  EXPECT_EQ(8 * k2.config.moe.expert_ffn_size, 16'384);
}

TEST(Notes, RouterReadsTheModelsWidth) {
  const PlanModel k3 = preset_model("k3");
  const double router = 2 * part_parameters(k3, Part::kRouter) / 92;
  EXPECT_NEAR(router / 1e6, 12.8, 0.05);
  EXPECT_NEAR(router / routed_flops_per_layer(k3), 0.012, 0.0005);
}

TEST(Notes, LatentProjectionsShare) {
  const auto share = [](const PlanModel& m) {
    return 2 * part_parameters(m, Part::kLatent) / real(m.num_moe()) / routed_flops_per_layer(m);
  };
  EXPECT_NEAR(share(preset_model("k3")), 0.097, 0.0005);
  EXPECT_NEAR(share(changed("k2", "l=3584,N=768")), 0.29, 0.005);
  EXPECT_NEAR(share(changed("k3", "d=6144,l=3072,K=4,m=3072")), 1.0 / 3, 1e-9);
  EXPECT_NEAR(share(changed("k3", "d=6144,l=3072,K=4,m=6144")), 1.0 / 6, 1e-9);
  // Two-matrix experts, 22 of 512 at m = 5120: d / (K m).
  EXPECT_NEAR(share(changed("k3", "d=8192,l=2048,N=512,K=22,m=5120,expert_matrices=2")), 0.073,
              0.0005);
  // 6.2 and 3.1 GFLOP of projections in 60 layers of K2.
  EXPECT_NEAR(2 * part_parameters(changed("k2", "l=3584,N=768,K=16"), Part::kLatent) / 1e9, 6.2,
              0.05);
  EXPECT_NEAR(2 * part_parameters(changed("k2", "l=1792,N=1536,K=32"), Part::kLatent) / 1e9, 3.1,
              0.05);
}

TEST(Notes, WeightTrafficIsKOnlyForOneToken) {
  const Scenario k3 = scenario_of("k3", "b300", "tp=1");
  const auto layer = [&](std::int64_t tokens) {
    return compute_step(k3, decode_step(tokens, 8192)).work_of(Part::kRouted).weight_bytes / 92;
  };
  EXPECT_NEAR(layer(1) / (16 * 17'547'264.0), 1, 1e-9);
  EXPECT_NEAR(layer(4096) / (896 * 17'547'264.0), 1, 1e-6);
  EXPECT_NEAR(layer(4096) / layer(1), 896.0 / 16, 1e-3);
}

struct VariantRow {
  const char* overrides;
  double routed, latent, elements, one, sixty_four, all, knee;
};

TEST(Notes, EffAndAccFromK2) {
  for (const VariantRow& row : {
           VariantRow{"m=2048", 705, 0, 57344, 0.19, 6.65, 8.98, 48},
           {"l=3584,N=768", 352, 103, 28672, 0.09, 4.39, 8.98, 96},
           {"l=3584,N=768,K=16", 705, 103, 57344, 0.19, 6.65, 8.98, 48},
           {"l=1792,N=1536", 176, 51, 14336, 0.05, 2.55, 8.98, 192},
           {"l=1792,N=1536,K=32", 705, 51, 57344, 0.19, 6.65, 8.98, 48},
           {"l=3584,N=896,K=16,m=3072", 1057, 103, 57344, 0.28, 10.8, 15.7, 56},
       }) {
    PlanModel model = changed("k2", row.overrides);
    const MoeConfig& moe = model.config.moe;
    const double bytes = expert_parameters(model) * format_bytes(Format::kMxfp4) / 1e9;
    const auto traffic = [&](double tokens) {
      return bytes * distinct_experts(real(moe.num_experts), real(moe.experts_per_token), tokens);
    };
    EXPECT_NEAR(routed_flops_per_layer(model) / 1e6, row.routed, 0.51) << row.overrides;
    EXPECT_NEAR(2 * part_parameters(model, Part::kLatent) / 60e6, row.latent, 0.51);
    EXPECT_EQ(real(moe.experts_per_token * model.expert_width()), row.elements);
    EXPECT_NEAR(traffic(1), row.one, 0.0051);
    EXPECT_NEAR(traffic(64), row.sixty_four, row.sixty_four > 9 ? 0.051 : 0.0051);
    EXPECT_NEAR(traffic(1e9), row.all, row.all > 9 ? 0.051 : 0.0051);
    EXPECT_EQ(real(moe.num_experts) / real(moe.experts_per_token), row.knee);
  }
  // eff in BF16 at one token: the projections read more than the experts save.
  const double saved =
      routed_flops_per_layer(preset_model("k2")) / 2 * format_bytes(Format::kMxfp4) / 2;
  EXPECT_NEAR(saved / 1e6, 94, 0.5);
  EXPECT_GT(2 * 7168 * 3584 * 2.0, saved);
}

TEST(Notes, PublicLatentRunOfMarin) {
  // 48 layers of 4 of 128 at d = 6144; forward GFLOP a token of the three arms differ by this.
  const auto flops = [](const char* text) {
    const PlanModel m = changed("k2", text);
    return 48 *
           (routed_flops_per_layer(m) +
            2 * (part_parameters(m, Part::kLatent) + part_parameters(m, Part::kRouter)) /
                real(m.num_moe())) /
           1e9;
  };
  const double base = flops("d=6144,N=128,K=4,m=3072");
  const double matched = flops("d=6144,N=128,K=4,m=6144,l=3072");
  const double kept = flops("d=6144,N=256,K=4,m=3072,l=3072");
  constexpr double kBase = 48.186;
  EXPECT_NEAR(kBase + matched - base, 51.810, 0.002);
  EXPECT_NEAR(kBase + kept - base, 41.014, 0.002);
}

struct SplitRow {
  const char* overrides;
  double cache_kb, parameters, flops, intensity, qk;
};

TEST(Notes, TheSplitOfTheCache) {
  for (const SplitRow& row : {
           SplitRow{"c=512,s=64", 13.8, 45.0, 208896, 181, 192},
           {"c=512,s=0", 12.3, 35.1, 196608, 192, 128},
           {"c=448,s=128", 13.8, 52.9, 196608, 171, 256},
           {"c=384,s=192", 13.8, 60.8, 184320, 160, 320},
           {"c=512,s=128", 15.4, 54.9, 221184, 173, 256},
           {"c=256,s=64", 7.7, 36.9, 110592, 173, 192},
           {"c=1024,s=64", 26.1, 61.3, 405504, 186, 192},
           {"c=576,s=0,d_n=192", 13.8, 50.1, 221184, 192, 192},  // one latent for all
       }) {
    const PlanModel model = changed("k3", row.overrides);
    const MlaConfig& mla = model.config.mla;
    EXPECT_NEAR(cache_bytes_per_token(model) / 1e3, row.cache_kb, 0.051) << row.overrides;
    const double gate_and_output = 2 * 7168.0 * 12288;
    const MixerParameters parameters = attention_parameters(model);
    const double kv_q = parameters.projections + parameters.core - gate_and_output - 7168 * 1536;
    EXPECT_NEAR(kv_q / 1e6, row.parameters, 0.051) << row.overrides;
    const MlaShape shape = mla_shape(model.config.mla);
    const auto flops = [&](std::int64_t start) {
      return mla_decode_cost(shape, start, DType::kBf16, DType::kBf16).flops;
    };
    const double per_token = flops(1001) - flops(1000);
    EXPECT_EQ(per_token, row.flops) << row.overrides;
    EXPECT_NEAR(per_token / real(2 * mla.cache_width()), row.intensity, 0.6);
    EXPECT_EQ(real(mla.qk_dim()), row.qk);
  }
}

TEST(Notes, UnifiedLatentCostsLittleInDecode) {
  const PlanModel k3 = preset_model("k3");
  const PlanModel unified = changed("k3", "c=576,s=0,d_n=192");
  const double before = attention_parameters(k3).core;
  const double after = attention_parameters(unified).core;
  EXPECT_NEAR(before / 1e6, 12.58, 0.005);
  EXPECT_NEAR(after / 1e6, 17.69, 0.005);
  EXPECT_NEAR(after / before - 1, 0.41, 0.005);
  EXPECT_NEAR((active_parameters(unified) - active_parameters(k3)) / active_parameters(k3), 0.0012,
              0.0002);
  EXPECT_NEAR(221184.0 / 208896 - 1, 0.059, 0.0005);
}

TEST(Notes, WideSharedHeadAgainstSeveralAtOneCache) {
  // 576 cached values: rank of a head's scores and FLOPs a cached token in decode.
  PlanModel mqa = preset_model("k3");
  mqa.config.mla.kind = MlaKind::kMqa;
  mqa.config.mla.kv_lora_rank = mqa.config.mla.qk_nope_dim = 576;
  mqa.config.mla.qk_rope_dim = 0;
  PlanModel gqa = preset_model("k3");
  gqa.config.mla.kind = MlaKind::kGqa;
  gqa.config.mla.kv_lora_rank = gqa.config.mla.qk_rope_dim = 0;
  gqa.config.mla.num_kv_heads = 2;
  gqa.config.mla.qk_nope_dim = gqa.config.mla.v_head_dim = 144;
  check_model(mqa);
  check_model(gqa);
  EXPECT_EQ(mqa.config.mla.cache_width(), 576);
  EXPECT_EQ(gqa.config.mla.cache_width(), 576);
  EXPECT_EQ(mqa.config.mla.qk_dim(), 576);
  EXPECT_EQ(gqa.config.mla.qk_dim(), 144);
  const auto per_token = [](const PlanModel& m) {
    const MlaShape shape = mla_shape(m.config.mla);
    return mla_decode_cost(shape, 1, DType::kBf16, DType::kBf16).flops -
           mla_decode_cost(shape, 0, DType::kBf16, DType::kBf16).flops;
  };
  EXPECT_EQ(per_token(mqa), 2 * 96 * 2 * 576);
  EXPECT_EQ(per_token(gqa), 2 * 96 * 2 * 144);
  // The wide head pays in the query matrix: r_q H 576 against r_q H 144.
  EXPECT_GT(attention_parameters(mqa).projections, attention_parameters(gqa).projections);
}

TEST(Notes, MostActiveParametersAndBytesAreNoExperts) {
  const PlanModel k3 = preset_model("k3");
  const double routed = 92 * 16 * expert_parameters(k3);
  EXPECT_NEAR(1 - routed / active_parameters(k3), 0.53, 0.005);
  const double experts = routed * format_bytes(Format::kMxfp4);
  EXPECT_NEAR(rest_bytes(k3) / (rest_bytes(k3) + experts), 0.81, 0.005);
}

TEST(Notes, AllToAllOfAModel) {
  // Bytes a token of all layers at 3 bytes a value: 15.8 and 10.3 MB.
  EXPECT_NEAR(92 * 57'344 * 3 / 1e6, 15.8, 0.05);
  EXPECT_NEAR(60 * 57'344 * 3 / 1e6, 10.3, 0.05);
}

TEST(MoeBalance, LineOfADeployment) {
  Scenario scenario = scenario_of("k3", "gb200", "tp=8,attn=dp,ep=8");
  const MoeLine line = compute_moe_line(scenario, compute_step(scenario, decode_step(64, 8192)));
  EXPECT_EQ(line.tokens, 64);
  EXPECT_NEAR(line.distinct, 613, 0.6);
  EXPECT_NEAR(line.rows_per_expert, 1.14, 0.005);
  EXPECT_NEAR(line.knee_rows, 166, 0.5);
  EXPECT_NEAR(line.rho_notes, 0.60, 0.005);
  EXPECT_NEAR(line.rho, 0.90, 0.005);
  EXPECT_NEAR(line.rho_full, line.rho * 7 / 8, 1e-9);
  // Shared experts and latents in the window, at the BF16 rate where routed ones run at FP8's.
  EXPECT_NEAR(line.rho_layer / line.rho_full, 0.59, 0.005);
  scenario.hardware = preset_hardware("h200").hardware;
  const MoeLine hopper = compute_moe_line(scenario, compute_step(scenario, decode_step(64, 8192)));
  EXPECT_NEAR(hopper.rho_layer / hopper.rho_full, 0.74, 0.005);
  EXPECT_NEAR(hopper.rho_notes, 0.24, 0.005);
  // Memory bound by far: 0.28 ms of weights against 3 us of messages.
  EXPECT_NEAR(hopper.memory * 1e3, 0.28, 0.1);
}

TEST(Knees, OfK3) {
  const PlanModel k3 = preset_model("k3");
  EXPECT_NEAR(state_over_weights_batch(k3), 124, 0.5);
  EXPECT_NEAR(cache_over_state_context(k3), 65.0e3, 50);
  EXPECT_NEAR(cache_over_state_memory(k3), 32.5e3, 50);
  PlanModel bf16 = k3;
  bf16.formats.kv = Format::kBf16;
  EXPECT_NEAR(cache_over_state_context(bf16), 32.5e3, 50);
  // 128 k tokens: three quarters of the FLOPs are attention.
  const double at = attention_over_rest_context(k3);
  EXPECT_NEAR(131072 / (131072 + at), 0.76, 0.005);
  for (const char* hardware : {"h200", "gb200", "rtx4090", "m3-ultra"}) {
    for (const char* model : {"k3", "k2", "gqa-70b", "kimi-linear", "k3-no-mla"}) {
      const auto knees = find_knees(scenario_of(model, hardware, "tp=1"));
      EXPECT_GE(knees.size(), 3u) << model << hardware;
      for (const Knee& knee : knees) EXPECT_GE(knee.value, 0) << knee.key;
    }
  }
}

TEST(Knees, ExpertRanksWhereMessagesStopHiding) {
  const auto ranks = [](const char* hardware, const char* dedup) {
    Scenario scenario = scenario_of("k3", hardware, "tp=1");
    scenario.workload.dedup = parse_dedup(dedup);
    for (const Knee& knee : find_knees(scenario)) {
      if (knee.key == "expert_ranks") return knee.value;
    }
    return 0.0;
  };
  // Inside of a node K3 hides its messages; over plain links of nodes it does not.
  EXPECT_EQ(ranks("h200", "flat"), 16);
  EXPECT_GT(ranks("h200", "node"), 16);
}

TEST(VerifyIntensity, OfTheCache) {
  // FLOP a byte of MLA decode: 181 and 363, over tp where heads are split and the latent is not.
  const PlanModel k3 = preset_model("k3");
  EXPECT_NEAR(208896 / real(2 * k3.config.mla.cache_width()), 181, 0.5);
  EXPECT_NEAR(208896 / real(k3.config.mla.cache_width()), 363, 0.5);
  EXPECT_NEAR(208896 / real(2 * k3.config.mla.cache_width()) / 8, 23, 0.5);
}

TEST(Ideas, EachPresetTakesOneAway) {
  const PlanModel k3 = preset_model("k3");
  const auto without = [](const char* name) { return preset_model(name); };
  EXPECT_EQ(without("k3-no-kda").num_kda(), 0);
  EXPECT_EQ(without("k3-no-kda").num_attn(), 93);
  EXPECT_EQ(without("k3-no-mla").num_attn(), 0);
  EXPECT_EQ(cache_bytes_per_token(without("k3-no-mla")), 0);
  EXPECT_EQ(cache_bytes_per_token(without("k3-no-kda")), 93 * 576);
  EXPECT_EQ(mix_sources(without("k3-no-attnres").config, 186), 1);
  EXPECT_EQ(cache_bytes_per_token(without("k3-no-side")), 24 * 512);
  EXPECT_EQ(part_parameters(without("k3-no-shared"), Part::kShared), 0);
  EXPECT_EQ(total_parameters(without("k3-no-mxfp4")), total_parameters(k3));
  EXPECT_NEAR(total_bytes(without("k3-no-mxfp4")) / 1e12, 5.56, 0.01);
  // The same routed work and parameters, half of the copies, no projections.
  const PlanModel wide = without("k3-no-latent");
  EXPECT_EQ(routed_flops_per_layer(wide), routed_flops_per_layer(k3));
  EXPECT_EQ(part_parameters(wide, Part::kRouted), part_parameters(k3, Part::kRouted));
  EXPECT_EQ(part_parameters(wide, Part::kLatent), 0);
  const double gates = 93 * 7168.0 * 12288;
  EXPECT_EQ(total_parameters(k3) - total_parameters(without("k3-no-gates")), gates);
  for (const std::string& name : preset_names()) check_model(preset_model(name));
}

}  // namespace
}  // namespace baltoro::plan
