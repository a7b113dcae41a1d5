// Parameters and bytes of the released models against their published totals, and against the
// tensors that the engine expects.
#include "plan/inventory.h"

#include <gtest/gtest.h>

#include "model/config_cases.h"
#include "model/model_stats.h"

namespace baltoro::plan {
namespace {

struct Totals {
  const char* model;
  double total, active;  // billions
};

TEST(PlanParameters, ReproduceThePublishedTotals) {
  for (const Totals& t :
       {Totals{"k3", 2779.5, 104.2}, {"k2", 1026.4, 31.7}, {"kimi-linear", 49.1, 3.1}}) {
    const PlanModel model = preset_model(t.model);
    EXPECT_NEAR(total_parameters(model) / 1e9, t.total, 0.05) << t.model;
    EXPECT_NEAR(active_parameters(model) / 1e9, t.active, 0.05) << t.model;
  }
}

struct PartRow {
  const char* model;
  Part part;
  double billions;
};

TEST(PlanParameters, ByComponent) {
  for (const PartRow& row : {
           PartRow{"k3", Part::kDense, 0.73},
           {"k3", Part::kRouter, 0.59},
           {"k3", Part::kLatent, 4.73},
           {"k3", Part::kShared, 12.16},
           {"k3", Part::kEmbed, 1.17},
           {"k3", Part::kHead, 1.17},
           {"k2", Part::kDense, 0.40},
           {"k2", Part::kRouter, 0.17},
           {"k2", Part::kLatent, 0},
           {"k2", Part::kShared, 2.64},
           {"kimi-linear", Part::kDense, 0.06},
           {"kimi-linear", Part::kRouter, 0.02},
           {"kimi-linear", Part::kShared, 0.18},
           {"kimi-linear", Part::kHead, 0.38},
       }) {
    EXPECT_NEAR(part_parameters(preset_model(row.model), row.part) / 1e9, row.billions, 0.005)
        << row.model << " " << part_name(row.part);
  }
  const auto both = [](const char* model, Part a, Part b) {
    return (part_parameters(preset_model(model), a) + part_parameters(preset_model(model), b)) /
           1e9;
  };
  EXPECT_NEAR(both("k3", Part::kKdaProj, Part::kKdaState), 30.62, 0.005);
  EXPECT_NEAR(both("k3", Part::kAttnProj, Part::kAttnCore), 5.57, 0.005);
  EXPECT_NEAR(both("k2", Part::kAttnProj, Part::kAttnCore), 6.17, 0.005);
  EXPECT_NEAR(both("kimi-linear", Part::kKdaProj, Part::kKdaState), 0.79, 0.005);
  EXPECT_NEAR(both("kimi-linear", Part::kAttnProj, Part::kAttnCore), 0.20, 0.005);
  EXPECT_NEAR(part_parameters(preset_model("k3"), Part::kRouted) / 1e9, 2722.7, 0.05);
  EXPECT_NEAR(part_parameters(preset_model("k2"), Part::kRouted) / 1e9, 1014.7, 0.05);
}

TEST(PlanParameters, LeaveOutOnlyVectors) {
  // What the engine counts beside matrices and convolutions: norms, biases, gate vectors.
  for (const auto& config : {parse(k3()), parse(linear())}) {
    const PlanModel model = model_from_config(config, "released");
    const ModelStats stats = compute_model_stats(config);
    const double all = static_cast<double>(stats.text_parameters);
    EXPECT_GT(all, total_parameters(model));
    EXPECT_NEAR(total_parameters(model) / all, 1, 1e-4);
    EXPECT_NEAR(active_parameters(model) / static_cast<double>(stats.active_parameters), 1, 1e-3);
    EXPECT_EQ(state_bytes_per_sequence(model), static_cast<double>(stats.kda_state_bytes));
    EXPECT_EQ(conv_bytes_per_sequence(model), static_cast<double>(stats.kda_conv_bytes));
    PlanModel bf16 = model;
    bf16.formats.kv = Format::kBf16;
    EXPECT_EQ(cache_bytes_per_token(bf16), static_cast<double>(stats.mla_cache_bytes_per_token));
  }
  EXPECT_EQ(compute_model_stats(parse(k3())).text_parameters, 2'779'484'478'208);
  EXPECT_EQ(compute_model_stats(parse(linear())).text_parameters, 49'122'681'728);
}

TEST(PlanParameters, PresetsAreTheReleasedFiles) {
  const auto sizes = [](const ModelConfig& c) {
    return std::vector<std::int64_t>{c.vocab_size,
                                     c.hidden_size,
                                     c.num_layers,
                                     c.intermediate_size,
                                     c.kda.num_heads,
                                     c.kda.head_dim_k,
                                     c.kda.head_dim_v,
                                     c.kda.conv_width,
                                     c.kda.gate_rank,
                                     c.kda.decay_rank,
                                     c.mla.num_heads,
                                     c.mla.qk_nope_dim,
                                     c.mla.qk_rope_dim,
                                     c.mla.v_head_dim,
                                     c.mla.q_lora_rank,
                                     c.mla.kv_lora_rank,
                                     c.moe.num_experts,
                                     c.moe.latent_size,
                                     c.moe.expert_ffn_size,
                                     c.moe.num_shared_experts,
                                     c.attn_res_sublayers,
                                     c.moe.experts_per_token,
                                     c.tie_word_embeddings,
                                     static_cast<std::int64_t>(c.kda.output_gate),
                                     static_cast<std::int64_t>(c.mla.output_gate)};
  };
  EXPECT_EQ(sizes(preset_model("k3").config), sizes(parse(k3())));
  EXPECT_EQ(preset_model("k3").config.layers, parse(k3()).layers);
  EXPECT_EQ(sizes(preset_model("kimi-linear").config), sizes(parse(linear())));
  EXPECT_EQ(preset_model("kimi-linear").config.layers, parse(linear()).layers);
}

TEST(PlanBytes, CheckpointCacheAndState) {
  const PlanModel k3 = preset_model("k3");
  EXPECT_NEAR(total_bytes(k3) / 1e9, 1559.93, 0.01);
  EXPECT_EQ(cache_bytes_per_token(k3), 13'824);
  EXPECT_NEAR(state_bytes_per_sequence(k3) / 1e6, 434.1, 0.05);
  EXPECT_NEAR(conv_bytes_per_sequence(k3) / 1e6, 15.3, 0.05);
  EXPECT_NEAR(rest_bytes(k3) / 1e9, 111.1, 0.05);
  EXPECT_NEAR(part_bytes(k3, Part::kLatent) / 1e9, 9.454, 0.001);
}

TEST(PlanOverrides, SymbolsAndConfigKeysAreOne) {
  PlanModel by_symbol = preset_model("k3");
  PlanModel by_key = preset_model("k3");
  apply_overrides(by_symbol, "m=4096,K=8,l=1792,L=45");
  apply_overrides(by_key,
                  "moe_intermediate_size=4096,num_experts_per_tok=8,routed_expert_hidden_size=1792,"
                  "num_hidden_layers=45");
  EXPECT_EQ(total_parameters(by_symbol), total_parameters(by_key));
  EXPECT_EQ(by_symbol.num_attn(), 12);  // every fourth and the last
  EXPECT_EQ(by_symbol.num_dense(), 1);
  PlanModel same = preset_model("k3");
  apply_overrides(same, "L=93,ratio=3,c=512,s=64");
  EXPECT_EQ(same.config.layers, preset_model("k3").config.layers);
}

}  // namespace
}  // namespace baltoro::plan
