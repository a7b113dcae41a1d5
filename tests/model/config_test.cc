// Reading a configuration: the released files, silently defaulted keys, aliases, the gate family,
// the variants. Wrong values: config_errors_test.cc.
#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/config_cases.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(ConfigOfTheRelease, KimiK3) {
  const ModelConfig c = parse(k3());
  EXPECT_EQ(c.vocab_size, 163840);
  EXPECT_EQ(c.hidden_size, 7168);
  EXPECT_EQ(c.num_layers, 93);
  EXPECT_EQ(c.intermediate_size, 33792);
  EXPECT_EQ(c.rms_norm_eps, 1e-5f);
  EXPECT_EQ(c.latent_norm_eps, 1e-6f);
  EXPECT_EQ(c.attn_res_sublayers, 24);
  EXPECT_EQ(c.activation.kind, ActivationKind::kSitu);
  EXPECT_EQ(c.activation.beta, 4.0f);
  EXPECT_EQ(c.activation.linear_beta, 25.0f);
  EXPECT_EQ(c.kda.num_heads, 96);
  EXPECT_EQ(c.kda.head_dim_k, 128);
  EXPECT_EQ(c.kda.head_dim_v, 128);
  EXPECT_EQ(c.kda.gate_lower_bound, -5.0f);
  EXPECT_EQ(c.kda.output_gate, OutputGate::kFull);
  EXPECT_EQ(c.mla.kind, MlaKind::kLatent);
  EXPECT_EQ(c.mla.q_lora_rank, 1536);
  EXPECT_EQ(c.mla.cache_width(), 576);
  EXPECT_EQ(c.mla.qk_dim(), 192);
  EXPECT_EQ(c.mla.output_gate, OutputGate::kFull);
  EXPECT_FALSE(c.mla.rope_theta.has_value());
  EXPECT_EQ(c.moe.latent_size, 3584);
  EXPECT_TRUE(c.moe.stable_norm);
  EXPECT_EQ(c.moe.shared_ffn_size(), 6144);
  EXPECT_EQ(c.eos_token_id, 163586);
  EXPECT_EQ(c.max_positions, 1048576);
  EXPECT_TRUE(c.layout.nested);
  EXPECT_TRUE(c.layout.mxfp4_experts);
  ASSERT_TRUE(c.vision.has_value());
  EXPECT_EQ(c.vision->merge, 4);
}

TEST(ConfigOfTheRelease, LastTwoLayersOfK3AreBothMla) {
  const ModelConfig c = parse(k3());
  EXPECT_EQ(c.num_layers_of(MixerKind::kMla), 24);
  EXPECT_EQ(c.num_layers_of(MixerKind::kKda), 69);
  EXPECT_EQ(c.num_layers_of(FfnKind::kDense), 1);
  for (std::size_t layer : {3u, 7u, 87u, 91u, 92u}) {
    EXPECT_EQ(c.layers[layer].mixer, MixerKind::kMla) << layer;
  }
  for (std::size_t layer : {0u, 2u, 4u, 90u}) {
    EXPECT_EQ(c.layers[layer].mixer, MixerKind::kKda) << layer;
  }
  EXPECT_EQ(c.layers[0].ffn, FfnKind::kDense);
  EXPECT_EQ(c.layers[1].ffn, FfnKind::kMoe);
}

TEST(ConfigOfTheRelease, KimiLinear) {
  const ModelConfig c = parse(linear());
  EXPECT_EQ(c.attn_res_sublayers, 0);
  EXPECT_EQ(c.activation.kind, ActivationKind::kSwiglu);
  EXPECT_EQ(c.mla.q_lora_rank, 0);
  EXPECT_EQ(c.mla.output_gate, OutputGate::kNone);
  EXPECT_EQ(c.kda.output_gate, OutputGate::kLowRank);
  EXPECT_EQ(c.kda.gate_rank, 128);
  EXPECT_EQ(c.moe.latent_size, 0);
  EXPECT_FALSE(c.moe.stable_norm);
  EXPECT_FLOAT_EQ(c.moe.routed_scaling_factor, 2.446f);
  EXPECT_FALSE(c.layout.nested);
  EXPECT_FALSE(c.layout.mxfp4_experts);
  EXPECT_FALSE(c.vision.has_value());
  // rope_theta is in the file, but mla_use_nope says that nothing is rotated.
  EXPECT_FALSE(c.mla.rope_theta.has_value());
}

// The bounded gate must be asked for; -5 is never a default.
TEST(GateFamily, NoLowerBoundIsSoftplus) {
  EXPECT_FALSE(parse(linear()).kda.gate_lower_bound.has_value());
  json config = k3();
  config["text_config"]["linear_attn_config"].erase("gate_lower_bound");
  EXPECT_FALSE(parse(config).kda.gate_lower_bound.has_value());
  config["text_config"]["linear_attn_config"]["gate_lower_bound"] = nullptr;
  EXPECT_FALSE(parse(config).kda.gate_lower_bound.has_value());
}

TEST(MissingKeys, EachRequiredKeyOfK3IsNamed) {
  const char* const required[] = {"vocab_size",
                                  "hidden_size",
                                  "num_hidden_layers",
                                  "intermediate_size",
                                  "num_attention_heads",
                                  "kv_lora_rank",
                                  "qk_nope_head_dim",
                                  "qk_rope_head_dim",
                                  "v_head_dim",
                                  "mla_use_nope",
                                  "hidden_act",
                                  "activation_situ_beta",
                                  "activation_situ_linear_beta",
                                  "rms_norm_eps",
                                  "num_experts",
                                  "num_experts_per_token",
                                  "num_shared_experts",
                                  "moe_intermediate_size",
                                  "latent_moe_use_norm",
                                  "moe_renormalize",
                                  "moe_router_activation_func",
                                  "routed_scaling_factor",
                                  "first_k_dense_replace",
                                  "moe_layer_freq"};
  for (const char* key : required) {
    json config = k3();
    ASSERT_EQ(config["text_config"].erase(key), 1u) << key;
    const Error error = error_of(config);
    EXPECT_EQ(error.code(), ErrorCode::kBadModel) << key;
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("1 key is missing"), HasSubstr(std::string("text_config.") + key)));
  }
  for (const char* key :
       {"num_heads", "head_dim", "short_conv_kernel_size", "kda_layers", "full_attn_layers"}) {
    json config = k3();
    ASSERT_EQ(config["text_config"]["linear_attn_config"].erase(key), 1u) << key;
    EXPECT_THAT(error_of(config).what(),
                HasSubstr(std::string("text_config.linear_attn_config.") + key));
  }
  json config = k3();
  config["text_config"].erase("tie_word_embeddings");
  config.erase("tie_word_embeddings");
  EXPECT_THAT(error_of(config).what(), HasSubstr("text_config.tie_word_embeddings"));
}

TEST(MissingKeys, OneErrorListsThemAll) {
  json config = linear();
  for (const char* key : {"hidden_size", "kv_lora_rank", "moe_renormalize"}) config.erase(key);
  config["v_head_dim"] = nullptr;
  EXPECT_THAT(
      error_of(config).what(),
      AllOf(HasSubstr("4 keys are missing"), HasSubstr("hidden_size"), HasSubstr("kv_lora_rank"),
            HasSubstr("moe_renormalize"), HasSubstr("v_head_dim")));
}

// Without the lists of layers any kind may be there.
TEST(MissingKeys, AnEmptyFileListsThemAll) {
  json config = k3();
  config["text_config"] = json::object();
  const std::string message = error_of(config).what();
  for (const char* key : {"vocab_size",
                          "num_hidden_layers",
                          "linear_attn_config.kda_layers",
                          "linear_attn_config.full_attn_layers",
                          "linear_attn_config.num_heads",
                          "linear_attn_config.head_dim",
                          "linear_attn_config.short_conv_kernel_size",
                          "num_attention_heads",
                          "kv_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "mla_use_nope",
                          "intermediate_size",
                          "num_experts",
                          "num_experts_per_token",
                          "moe_intermediate_size",
                          "num_shared_experts",
                          "routed_scaling_factor",
                          "hidden_act",
                          "activation_situ_beta",
                          "activation_situ_linear_beta",
                          "moe_renormalize"}) {
    EXPECT_THAT(message, HasSubstr(std::string("text_config.") + key));
  }
  EXPECT_THAT(message, testing::Not(HasSubstr("out of range")));

  config = k3();
  config["text_config"].erase("linear_attn_config");
  EXPECT_THAT(error_of(config).what(),
              AllOf(HasSubstr("5 keys are missing"), HasSubstr("linear_attn_config.num_heads")));
}

TEST(MissingKeys, OnlyTheKindsOfLayersThatExistNeedTheirs) {
  json config = linear();
  config["num_hidden_layers"] = 2;
  config["first_k_dense_replace"] = 2;
  config["linear_attn_config"] = {{"kda_layers", json::array()}, {"full_attn_layers", {1, 2}}};
  for (const char* key : {"num_experts", "num_experts_per_token", "moe_renormalize",
                          "moe_intermediate_size", "routed_scaling_factor"}) {
    config.erase(key);
  }
  const ModelConfig c = parse(config);
  EXPECT_EQ(c.num_layers_of(MixerKind::kKda), 0);
  EXPECT_EQ(c.num_layers_of(FfnKind::kMoe), 0);
  EXPECT_EQ(c.moe.num_experts, 0);
}

TEST(Aliases, BothSpellingsMeanTheSame) {
  json config = linear();
  config["num_experts_per_tok"] = config["num_experts_per_token"];
  EXPECT_EQ(parse(config).moe.experts_per_token, 8);
  config.erase("num_experts_per_token");
  EXPECT_EQ(parse(config).moe.experts_per_token, 8);
}

TEST(Aliases, PresentTwiceAndDifferentIsAnError) {
  json config = linear();
  config["num_experts_per_tok"] = 6;
  EXPECT_THAT(error_of(config).what(),
              AllOf(HasSubstr("num_experts_per_token"), HasSubstr("8 and 6")));
}

TEST(Aliases, OuterAndNestedValueMustAgree) {
  json config = k3();
  config["hidden_size"] = 4096;
  EXPECT_THAT(error_of(config).what(), AllOf(HasSubstr("hidden_size"), HasSubstr("4096")));
  config["hidden_size"] = 7168;
  EXPECT_EQ(parse(config).hidden_size, 7168);
}

TEST(NullRopeScaling, Loads) {
  json config = k3();
  config["text_config"]["rope_scaling"] = nullptr;
  EXPECT_FALSE(parse(config).mla.rope_theta.has_value());
}

TEST(EveryFixture, Loads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    EXPECT_NO_THROW(load_config(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST(Variants, AreReadFromTheirKeys) {
  EXPECT_TRUE(load_config(kFixtures / "gdn").kda.decay_per_head);
  EXPECT_EQ(load_config(kFixtures / "gdn").kda.decay_width(), 2);
  EXPECT_EQ(load_config(kFixtures / "kv_unequal").kda.head_dim_v, 24);
  EXPECT_EQ(load_config(kFixtures / "mqa").mla.qk_dim(), 32 + 16);
  EXPECT_EQ(load_config(kFixtures / "gqa").mla.num_kv_heads, 2);
  EXPECT_EQ(load_config(kFixtures / "gqa").mla.cache_width(), 2 * (24 + 16));
  EXPECT_EQ(load_config(kFixtures / "attnres_full").attn_res_sublayers, 1);
  EXPECT_TRUE(load_config(kFixtures / "router_latent").moe.router_reads_latent);
  EXPECT_EQ(load_config(kFixtures / "rope").mla.rope_theta, 10000.0f);
  EXPECT_EQ(load_config(kFixtures / "gate_none").kda.output_gate, OutputGate::kNone);
  EXPECT_EQ(load_config(kFixtures / "mla_gate_low_rank").mla.gate_rank, 16);
}

TEST(LatentEps, FileThenOption) {
  json config = k3();
  config["text_config"]["baltoro"] = {{"latent_norm_eps", 1e-5}};
  EXPECT_EQ(parse(config).latent_norm_eps, 1e-5f);
  ConfigOptions options;
  options.latent_norm_eps = 2e-5f;
  EXPECT_EQ(parse_config(config.dump(), "config.json", options).latent_norm_eps, 2e-5f);
  options.latent_norm_eps = 0.0f;
  EXPECT_THROW(parse_config(config.dump(), "config.json", options), Error);
}

TEST(GenerationConfigFile, IsReadOrRefused) {
  const GenerationConfig c = parse_generation_config(
      R"({"do_sample": true, "temperature": 0.7, "top_p": 0.95, "top_k": 40,
          "eos_token_id": [163586, 163585]})",
      "generation_config.json");
  EXPECT_EQ(c.do_sample, true);
  EXPECT_EQ(c.temperature, 0.7f);
  EXPECT_EQ(c.top_p, 0.95f);
  EXPECT_EQ(c.top_k, 40);
  EXPECT_FALSE(c.min_p.has_value());
  EXPECT_THAT(c.stop_ids, testing::ElementsAre(163586, 163585));
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": 7})", "g").stop_ids,
              testing::ElementsAre(7));
  EXPECT_THROW(parse_generation_config(R"({"temperature": -1})", "g"), Error);
  EXPECT_THROW(parse_generation_config(R"({"top_p": 1.5})", "g"), Error);
  EXPECT_THROW(parse_generation_config(R"({"eos_token_id": [-3]})", "g"), Error);
  EXPECT_THROW(parse_generation_config(R"({"eos_token_id": "x"})", "g"), Error);
  EXPECT_TRUE(load_generation_config(kConfigs).stop_ids.empty());
}

}  // namespace
}  // namespace baltoro
