// Wrong configurations: contradictions, values out of range, foreign quantisation, malformed text.
// Each error names key, value and rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/config_cases.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// One change of a good file, the parts of the message that must name it.
struct WrongConfig {
  const char* name;
  void (*change)(json& text);  // of K3's text_config
  std::vector<std::string> telling;
};

class WrongConfigTest : public testing::TestWithParam<WrongConfig> {};

TEST_P(WrongConfigTest, NamesKeyValueAndRule) {
  json config = k3();
  GetParam().change(config["text_config"]);
  const Error error = error_of(config);
  EXPECT_EQ(error.code(), ErrorCode::kBadModel) << error.what();
  for (const std::string& part : GetParam().telling) {
    EXPECT_THAT(std::string(error.what()), HasSubstr(part));
  }
}

const WrongConfig kWrongConfigs[] = {
    {"ListsOverlap",
     [](json& t) { t["linear_attn_config"]["kda_layers"].push_back(93); },
     {"layer 93", "full_attn_layers", "exactly one"}},
    {"ListsLeaveAGap",
     [](json& t) { t["linear_attn_config"]["kda_layers"].erase(4); },
     {"kda_layers", "such as 6", "exactly one"}},
    {"ListHoldsZero",
     [](json& t) { t["linear_attn_config"]["kda_layers"].push_back(0); },
     {"kda_layers: 0 is no layer", "1 to 93"}},
    {"ListHoldsTooMuch",
     [](json& t) { t["linear_attn_config"]["full_attn_layers"].push_back(94); },
     {"full_attn_layers: 94 is no layer", "1 to 93"}},
    {"LayerTwiceInAList",
     [](json& t) { t["linear_attn_config"]["kda_layers"].push_back(1); },
     {"kda_layers: layer 1 stands twice"}},
    {"TopKAboveExperts",
     [](json& t) { t["num_experts_per_token"] = 897; },
     {"num_experts_per_token: 897 exceeds num_experts 896"}},
    {"ZeroHiddenSize", [](json& t) { t["hidden_size"] = 0; }, {"hidden_size: 0 is out of range"}},
    {"NegativeHeads",
     [](json& t) { t["num_attention_heads"] = -96; },
     {"num_attention_heads: -96 is out of range"}},
    {"AbsurdSize",
     [](json& t) { t["vocab_size"] = std::uint64_t{1} << 63; },
     {"vocab_size: 9223372036854775808 is out of range"}},
    {"SizeIsText",
     [](json& t) { t["hidden_size"] = "7168"; },
     {"hidden_size: expected an integer, found \"7168\""}},
    {"SizeIsAFraction",
     [](json& t) { t["kv_lora_rank"] = 512.5; },
     {"kv_lora_rank: expected an integer, found 512.5"}},
    {"GateBoundTooLow",
     [](json& t) { t["linear_attn_config"]["gate_lower_bound"] = -5.5; },
     {"gate_lower_bound: -5.5 is out of range; the rule is [-5, 0)"}},
    {"GateBoundZero",
     [](json& t) { t["linear_attn_config"]["gate_lower_bound"] = 0; },
     {"gate_lower_bound: 0 is out of range; the rule is [-5, 0)"}},
    {"UnknownActivation",
     [](json& t) { t["hidden_act"] = "relu"; },
     {"hidden_act: \"relu\" is not known", "situ, silu"}},
    {"UnknownRouter",
     [](json& t) { t["moe_router_activation_func"] = "softmax"; },
     {"moe_router_activation_func: \"softmax\"", "sigmoid"}},
    {"ExpertGroups", [](json& t) { t["num_expert_group"] = 8; }, {"num_expert_group: 8"}},
    {"NormWithoutLatent",
     [](json& t) { t.erase("routed_expert_hidden_size"); },
     {"latent_moe_use_norm: true without routed_expert_hidden_size"}},
    {"ZeroEps", [](json& t) { t["rms_norm_eps"] = 0; }, {"rms_norm_eps: 0 is out of range"}},
    {"RotationOfAnOddBranch",
     [](json& t) {
       t["mla_use_nope"] = false;
       t["rope_theta"] = 1e4;
       t["qk_rope_head_dim"] = 63;
     },
     {"qk_rope_head_dim: 63"}},
    {"RotationWithoutTheta",
     [](json& t) { t["mla_use_nope"] = false; },
     {"missing: text_config.rope_theta"}},
    {"TwoKindsOfHeads",
     [](json& t) { t["num_key_value_heads"] = 8; },
     {"num_key_value_heads: 8 differs from num_attention_heads 96"}},
    {"TwoAttnResLengths",
     [](json& t) {
       t["baltoro"] = {{"attn_res_sublayers", 1}};
     },
     {"baltoro.attn_res_sublayers", "attn_res_block_size"}},
    {"UnknownOwnKey",
     [](json& t) {
       t["baltoro"] = {{"mla_kvs", "gqa"}};
     },
     {"baltoro.mla_kvs: unknown key"}},
    {"MqaOfAnotherWidth",
     [](json& t) {
       t["baltoro"] = {{"mla_kv", "mqa"}};
     },
     {"qk_nope_head_dim: 128 differs from kv_lora_rank 512"}},
    {"GqaWithALatent",
     [](json& t) {
       t["baltoro"] = {{"mla_kv", "gqa"}};
     },
     {"kv_lora_rank", "qk_rope_head_dim: 64"}},
    {"GqaHeadsDoNotDivide",
     [](json& t) {
       t["baltoro"] = {{"mla_kv", "gqa"}};
       t["num_key_value_heads"] = 7;
     },
     {"num_key_value_heads: 7 does not divide num_attention_heads 96"}},
    {"GatesDisagree",
     [](json& t) {
       t["baltoro"] = {{"kda_output_gate", "low_rank"}};
     },
     {"baltoro.kda_output_gate", "use_full_rank_gate true"}},
    {"MlaGatesDisagree",
     [](json& t) {
       t["baltoro"] = {{"mla_output_gate", "none"}};
     },
     {"baltoro.mla_output_gate", "mla_use_output_gate true"}},
    {"StopIdBeyondTheVocabulary",
     [](json& t) { t["eos_token_id"] = 163840; },
     {"eos_token_id: 163840"}},
    {"SectionIsAList",
     [](json& t) {
       t["linear_attn_config"] = {1, 2};
     },
     {"linear_attn_config: expected an object"}},
    {"FirstMoeLayerBeyondTheLast",
     [](json& t) { t["first_k_dense_replace"] = 94; },
     {"first_k_dense_replace: 94 exceeds num_hidden_layers 93"}},
    {"ExpertsOfNoWholeGroup",
     [](json& t) { t["moe_intermediate_size"] = 33; },
     {"text_config.moe_intermediate_size: 33 is no multiple of 32"}},
    {"LatentOfNoWholeGroup",
     [](json& t) { t["routed_expert_hidden_size"] = 3600; },
     {"text_config.routed_expert_hidden_size: 3600 is no multiple of 32"}},
};

INSTANTIATE_TEST_SUITE_P(All, WrongConfigTest, testing::ValuesIn(kWrongConfigs),
                         [](const auto& param) { return param.param.name; });

// The message must end with the fault itself: what follows from it would mislead.
TEST(FollowOnErrors, AreNotListed) {
  json config = k3();
  config["text_config"].erase("vocab_size");
  EXPECT_STREQ(error_of(config).what(), "config.json: 1 key is missing: text_config.vocab_size");
  config = k3();
  config["text_config"]["num_hidden_layers"] = std::uint64_t{1} << 40;
  EXPECT_STREQ(error_of(config).what(),
               "config.json: text_config.num_hidden_layers: 1099511627776 is out of range; the "
               "rule is 1 to 4096");
  config = k3();
  config["text_config"].erase("num_attention_heads");
  EXPECT_STREQ(error_of(config).what(),
               "config.json: 1 key is missing: text_config.num_attention_heads");
}

// The outer object of a nested file: what stands there counts, and may not contradict.
TEST(OuterObject, OwnKeysThereAreAnErrorNotIgnored) {
  json config = k3();
  config["baltoro"] = {{"decay", "per_head"}};
  EXPECT_STREQ(error_of(config).what(),
               "config.json: baltoro stands at the top level; move it into text_config");
}

TEST(OuterObject, ASectionThereMustAgree) {
  json config = k3();
  json& inner = config["text_config"]["linear_attn_config"];
  config["linear_attn_config"] = inner;
  EXPECT_EQ(parse(config).kda.num_heads, 96);
  config["linear_attn_config"]["num_heads"] = 48;
  EXPECT_THAT(error_of(config).what(),
              HasSubstr("linear_attn_config.num_heads: 96 here and 48 in the outer object differ; "
                        "keep one of them"));
  config["linear_attn_config"] = {1, 2};
  EXPECT_THAT(error_of(config).what(), HasSubstr("linear_attn_config: expected an object"));
  config["linear_attn_config"] = inner;
  config["text_config"].erase("linear_attn_config");
  EXPECT_EQ(parse(config).kda.num_heads, 96);
}

TEST(NoModelDirectory, SaysWhatToGive) {
  const auto error_of_path = [](const std::filesystem::path& path) {
    try {
      load_config(path);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << path;
    return Error(ErrorCode::kInternal, "");
  };
  const Error absent = error_of_path("/nonexistent");
  EXPECT_EQ(absent.code(), ErrorCode::kBadModel);
  EXPECT_STREQ(absent.what(),
               "/nonexistent: no such directory; give a checkpoint's directory (config.json, "
               "*.safetensors)");
  const Error other = error_of_path(kFixtures);
  EXPECT_EQ(other.code(), ErrorCode::kBadModel);
  EXPECT_THAT(other.what(), HasSubstr("config.json: no such file; is this a model directory?"));
}

// Another quantisation read as this one is fluent nonsense.
TEST(ForeignQuantisation, IsRefused) {
  const auto expect_refused = [](void (*change)(json&), const char* telling) {
    json config = k3();
    change(config["quantization_config"]);
    const Error error = error_of(config);
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
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

TEST(ForeignQuantisation, MixedPrecisionNamesAKnownFormatInEachGroup) {
  json config = k3();
  json& q = config["quantization_config"];
  q["format"] = "mixed-precision";
  q["config_groups"]["group_1"] = {{"format", "mxint8-pack-quantized"},
                                   {"weights", {{"num_bits", 8}, {"type", "int"}}}};
  EXPECT_TRUE(parse(config).layout.mxfp4_experts);
  EXPECT_TRUE(parse(config).layout.mxint8_trunk);
  q["config_groups"]["group_1"]["weights"]["num_bits"] = 4;
  EXPECT_THAT(error_of(config).what(), HasSubstr("num_bits is 4"));
  q["config_groups"]["group_1"]["format"] = "pack-quantized";
  EXPECT_THAT(error_of(config).what(),
              HasSubstr("config_groups.group_1.format is \"pack-quantized\"; baltoro reads"));
  q["config_groups"]["group_1"].erase("format");
  EXPECT_THAT(error_of(config).what(), HasSubstr("config_groups.group_1.format is absent"));
  q.erase("config_groups");
  EXPECT_THAT(error_of(config).what(), HasSubstr("mixed-precision needs config_groups"));
  q["format"] = "mxint8-pack-quantized";
  EXPECT_FALSE(parse(config).layout.mxfp4_experts);
  EXPECT_TRUE(parse(config).layout.mxint8_trunk);
}

TEST(ForeignQuantisation, IsSeenInsideTextConfigToo) {
  json config = k3();
  config["text_config"]["quantization_config"] = config["quantization_config"];
  config.erase("quantization_config");
  EXPECT_TRUE(parse(config).layout.mxfp4_experts);
  config["text_config"]["quantization_config"]["format"] = "nvfp4-pack-quantized";
  EXPECT_EQ(error_of(config).code(), ErrorCode::kBadModel);
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
