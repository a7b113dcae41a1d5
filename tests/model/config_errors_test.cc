// Wrong configurations: contradictions, values out of range, foreign quantisation, malformed text.
// Each error names key, value and rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/config_cases.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// One change of a good file, the part of the message that must name it.
struct WrongConfig {
  const char* name;
  void (*change)(json& text);  // of K3's text_config
  ErrorCode code;
  std::vector<std::string> telling;
};

class WrongConfigTest : public testing::TestWithParam<WrongConfig> {};

TEST_P(WrongConfigTest, NamesKeyValueAndRule) {
  json config = k3();
  GetParam().change(config["text_config"]);
  const Error error = error_of(config);
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  for (const std::string& part : GetParam().telling) {
    EXPECT_THAT(std::string(error.what()), HasSubstr(part));
  }
}

#define CHANGE [](json & t)
const WrongConfig kWrongConfigs[] = {
    {"ListsOverlap", CHANGE{t["linear_attn_config"]["kda_layers"].push_back(93);
}  // namespace
, ErrorCode::kBadModel, { "layer 93", "full_attn_layers", "exactly one" }
}  // namespace baltoro
, {"ListsLeaveAGap", CHANGE{t["linear_attn_config"]["kda_layers"].erase(4);
}
, ErrorCode::kBadModel, { "kda_layers", "such as 6", "exactly one" }
}
, {"ListHoldsZero", CHANGE{t["linear_attn_config"]["kda_layers"].push_back(0);
}
, ErrorCode::kBadModel, { "kda_layers: 0 is no layer", "1 to 93" }
}
, {"ListHoldsTooMuch", CHANGE{t["linear_attn_config"]["full_attn_layers"].push_back(94);
}
, ErrorCode::kBadModel, { "full_attn_layers: 94 is no layer", "1 to 93" }
}
, {"LayerTwiceInAList", CHANGE{t["linear_attn_config"]["kda_layers"].push_back(1);
}
, ErrorCode::kBadModel, { "kda_layers: layer 1 stands twice" }
}
, {"TopKAboveExperts", CHANGE{t["num_experts_per_token"] = 897;
}
, ErrorCode::kBadModel, { "num_experts_per_token: 897 exceeds num_experts 896" }
}
, {"ZeroHiddenSize", CHANGE{t["hidden_size"] = 0;
}
, ErrorCode::kBadModel, { "hidden_size: 0 is out of range" }
}
, {"NegativeHeads", CHANGE{t["num_attention_heads"] = -96;
}
, ErrorCode::kBadModel, { "num_attention_heads: -96 is out of range" }
}
, {"AbsurdSize", CHANGE{t["vocab_size"] = std::uint64_t{1} << 63;
}
, ErrorCode::kBadModel, { "vocab_size: 9223372036854775808 is out of range" }
}
, {"SizeIsText", CHANGE{t["hidden_size"] = "7168";
}
, ErrorCode::kBadModel, { "hidden_size: expected an integer, found \"7168\"" }
}
, {"SizeIsAFraction", CHANGE{t["kv_lora_rank"] = 512.5;
}
, ErrorCode::kBadModel, { "kv_lora_rank: expected an integer, found 512.5" }
}
, {"GateBoundTooLow", CHANGE{t["linear_attn_config"]["gate_lower_bound"] = -5.5;
}
, ErrorCode::kBadModel, { "gate_lower_bound: -5.5 is out of range" }
}
, {"GateBoundZero", CHANGE{t["linear_attn_config"]["gate_lower_bound"] = 0;
}
, ErrorCode::kBadModel, { "gate_lower_bound: 0 is out of range", "[-5, 0)" }
}
, {"UnknownActivation", CHANGE{t["hidden_act"] = "relu";
}
, ErrorCode::kBadModel, { "hidden_act: \"relu\" is not known", "situ, silu" }
}
, {"UnknownRouter", CHANGE{t["moe_router_activation_func"] = "softmax";
}
, ErrorCode::kBadModel, { "moe_router_activation_func: \"softmax\"", "sigmoid" }
}
, {"ExpertGroups", CHANGE{t["num_expert_group"] = 8;
}
, ErrorCode::kBadModel, { "num_expert_group: 8" }
}
, {"NormWithoutLatent", CHANGE{t.erase("routed_expert_hidden_size");
}
, ErrorCode::kBadModel, { "latent_moe_use_norm: true without routed_expert_hidden_size" }
}
, {"ZeroEps", CHANGE{t["rms_norm_eps"] = 0;
}
, ErrorCode::kBadModel, { "rms_norm_eps: 0 is out of range" }
}
, {"RotationOfAnOddBranch", CHANGE{t["mla_use_nope"] = false;
t["rope_theta"] = 1e4;
t["qk_rope_head_dim"] = 63;
}
, ErrorCode::kBadModel, { "qk_rope_head_dim: 63" }
}
, {"RotationWithoutTheta", CHANGE{t["mla_use_nope"] = false;
}
, ErrorCode::kBadModel, { "missing: text_config.rope_theta" }
}
, {"TwoKindsOfHeads", CHANGE{t["num_key_value_heads"] = 8;
}
, ErrorCode::kBadModel, { "num_key_value_heads: 8 differs from num_attention_heads 96" }
}
, {"TwoAttnResLengths", CHANGE{t["baltoro"] = {{"attn_res_sublayers", 1}};
}
, ErrorCode::kBadModel, { "baltoro.attn_res_sublayers", "attn_res_block_size" }
}
, {"UnknownOwnKey", CHANGE{t["baltoro"] = {{"mla_kvs", "gqa"}};
}
, ErrorCode::kBadModel, { "baltoro.mla_kvs: unknown key" }
}
, {"MqaOfAnotherWidth", CHANGE{t["baltoro"] = {{"mla_kv", "mqa"}};
}
, ErrorCode::kBadModel, { "qk_nope_head_dim: 128 differs from kv_lora_rank 512" }
}
, {"GqaWithALatent", CHANGE{t["baltoro"] = {{"mla_kv", "gqa"}};
}
, ErrorCode::kBadModel, { "kv_lora_rank", "qk_rope_head_dim: 64" }
}
, {"GqaHeadsDoNotDivide", CHANGE{t["baltoro"] = {{"mla_kv", "gqa"}};
t["num_key_value_heads"] = 7;
}
, ErrorCode::kBadModel, { "num_key_value_heads: 7 does not divide num_attention_heads 96" }
}
, {"GatesDisagree", CHANGE{t["baltoro"] = {{"kda_output_gate", "low_rank"}};
}
, ErrorCode::kBadModel, { "baltoro.kda_output_gate", "use_full_rank_gate true" }
}
, {"MlaGatesDisagree", CHANGE{t["baltoro"] = {{"mla_output_gate", "none"}};
}
, ErrorCode::kBadModel, { "baltoro.mla_output_gate", "mla_use_output_gate true" }
}
, {"StopIdBeyondTheVocabulary", CHANGE{t["eos_token_id"] = 163840;
}
, ErrorCode::kBadModel, { "eos_token_id: 163840" }
}
, {"SectionIsAList", CHANGE{t["linear_attn_config"] = {1, 2};
}
, ErrorCode::kBadModel, { "linear_attn_config: expected an object" }
}
,
}
;
#undef CHANGE

INSTANTIATE_TEST_SUITE_P(All, WrongConfigTest, testing::ValuesIn(kWrongConfigs),
                         [](const auto& param) { return param.param.name; });

// Another quantisation read as this one is fluent nonsense.
TEST(ForeignQuantisation, IsRefused) {
  const auto expect_refused = [](void (*change)(json&), const char* telling) {
    json config = k3();
    change(config["quantization_config"]);
    const Error error = error_of(config);
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr(telling));
  };
  expect_refused([](json& q) { q["quant_method"] = "modelopt"; }, "quant_method is \"modelopt\"");
  expect_refused([](json& q) { q.erase("quant_method"); }, "quant_method is absent");
  expect_refused([](json& q) { q["format"] = "nvfp4-pack-quantized"; }, "nvfp4-pack-quantized");
  expect_refused([](json& q) { q["config_groups"]["group_0"]["weights"]["group_size"] = 16; },
                 "group_size is 16");
  expect_refused([](json& q) { q["config_groups"]["group_0"]["weights"]["num_bits"] = 8; },
                 "num_bits is 8");
  expect_refused(
      [](json& q) {
        q["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 4}};
      },
      "input_activations");
}

TEST(ForeignQuantisation, IsSeenInsideTextConfigToo) {
  json config = k3();
  config["text_config"]["quantization_config"] = config["quantization_config"];
  config.erase("quantization_config");
  EXPECT_TRUE(parse(config).layout.mxfp4_experts);
  config["text_config"]["quantization_config"]["format"] = "nvfp4-pack-quantized";
  EXPECT_EQ(error_of(config).code(), ErrorCode::kUnsupported);
}

TEST(MalformedConfig, IsLocated) {
  EXPECT_THAT(error_of_text("{\n  \"hidden_size\": 7168,\n  \"vocab_size\" 5\n}").what(),
              HasSubstr("line 3, column"));
  EXPECT_THAT(error_of_text("").what(), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_text("[]").what(), HasSubstr("expected an object"));
  EXPECT_THAT(error_of_text("{\"a\": 1} x").what(), HasSubstr("not valid JSON"));
}

TEST(MalformedConfig, AKeyThatStandsTwiceIsAnError) {
  EXPECT_THAT(error_of_text(R"({"hidden_size": 1, "hidden_size": 2})").what(),
              HasSubstr("\"hidden_size\" stands twice"));
}

TEST(MalformedConfig, DeepNestingIsRefusedNotRecursed) {
  const std::string deep(100000, '[');
  EXPECT_THAT(error_of_text("{\"a\":" + deep).what(), HasSubstr("deeper than 64"));
}

}  // namespace
}  // namespace baltoro
