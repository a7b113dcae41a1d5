#include "model/config_quantization.h"

#include <vector>

#include "core/e8m0.h"
#include "core/error.h"

namespace baltoro {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMethod = "compressed-tensors";
constexpr const char* kMixed = "mixed-precision";

// A format of packed weights, and how its groups describe them.
struct Scheme {
  const char* format;
  int num_bits;
  const char* type;
  bool Quantization::*asked;
  // The modules as patterns for readers that go by name; baltoro goes by the tensors present.
  std::vector<const char*> targets;
};
const Scheme kSchemes[] = {
    {"mxfp4-pack-quantized",
     4,
     "float",
     &Quantization::mxfp4_experts,
     {R"(re:.*block_sparse_moe\.experts\..*)"}},
    {"mxint8-pack-quantized",
     8,
     "int",
     &Quantization::mxint8_trunk,
     {R"(re:.*self_attn\.(q|k|v|g|o|g_a|g_b|q_a|q_b)_proj$)",
      R"(re:.*self_attn\.kv_a_proj_with_mqa$)",
      R"(re:.*(mlp|shared_experts)\.(gate|up|down)_proj$)", R"(re:.*routed_expert_(down|up)_proj$)",
      R"(re:.*lm_head$)"}},
};

// Without json's own comparison, which makes a json of the text and must not throw.
bool is_text(const json& value, std::string_view text) {
  const auto* string = value.get_ptr<const std::string*>();
  return string != nullptr && *string == text;
}

const Scheme* find_scheme(const json& format) {
  for (const Scheme& scheme : kSchemes) {
    if (is_text(format, scheme.format)) return &scheme;
  }
  return nullptr;
}

[[noreturn]] void unknown_format(const std::string& where, const std::string& key,
                                 const json* found) {
  fail(ErrorCode::kBadModel,
       "{}: quantization_config: {} is {}; baltoro reads {}, {} and {} of them", where, key,
       found == nullptr ? "absent" : found->dump(), kSchemes[0].format, kSchemes[1].format, kMixed);
}

// `key` of `object` must be absent, null, or `expected`.
void require(const std::string& where, const json& object, const char* key, const json& expected,
             std::string_view format) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null() || *found == expected) return;
  fail(ErrorCode::kBadModel,
       "{}: quantization_config: {} is {}; baltoro reads {} {} weights with {} {}", where, key,
       found->dump(), kMethod, format, key, expected.dump());
}

void check_weights(const std::string& where, const json& weights, const Scheme& scheme) {
  require(where, weights, "num_bits", scheme.num_bits, scheme.format);
  require(where, weights, "type", scheme.type, scheme.format);
  require(where, weights, "strategy", "group", scheme.format);
  require(where, weights, "group_size", kMxGroup, scheme.format);
  require(where, weights, "symmetric", true, scheme.format);
  require(where, weights, "dynamic", false, scheme.format);
}

// `outer`: the scheme of the whole, nullptr where each group names its own.
const Scheme& check_group(const std::string& where, const std::string& name, const json& group,
                          const Scheme* outer) {
  const std::string key = "config_groups." + name;
  if (!group.is_object()) {
    fail(ErrorCode::kBadModel, "{}: quantization_config.{}: expected an object", where, key);
  }
  const auto format = group.find("format");
  const bool named = format != group.end() && !format->is_null();
  const Scheme* scheme = named ? find_scheme(*format) : outer;
  if (scheme == nullptr) unknown_format(where, key + ".format", named ? &*format : nullptr);
  if (outer != nullptr) require(where, group, "format", outer->format, outer->format);
  require(where, group, "input_activations", nullptr, scheme->format);
  require(where, group, "output_activations", nullptr, scheme->format);
  const auto weights = group.find("weights");
  if (weights != group.end() && weights->is_object()) check_weights(where, *weights, *scheme);
  return *scheme;
}

ordered_json describe_group(const Scheme& scheme) {
  return {{"format", scheme.format},
          {"targets", scheme.targets},
          {"weights",
           {{"num_bits", scheme.num_bits},
            {"type", scheme.type},
            {"strategy", "group"},
            {"group_size", kMxGroup},
            {"symmetric", true},
            {"dynamic", false},
            {"scale_dtype", "torch.uint8"}}},
          {"input_activations", nullptr},
          {"output_activations", nullptr}};
}

}  // namespace

Quantization check_quantization(ConfigReader& reader) {
  Quantization result;
  const json* quantization = reader.find({"quantization_config"});
  if (quantization == nullptr) return result;
  const std::string& where = reader.where();
  if (!quantization->is_object()) {
    fail(ErrorCode::kBadModel, "{}: quantization_config: expected an object", where);
  }
  const auto method = quantization->find("quant_method");
  if (method == quantization->end() || !is_text(*method, kMethod)) {
    fail(ErrorCode::kBadModel, "{}: quantization_config: quant_method is {}; baltoro reads {}",
         where, method == quantization->end() ? "absent" : method->dump(), kMethod);
  }
  const auto format = quantization->find("format");
  if (format == quantization->end()) unknown_format(where, "format", nullptr);
  const Scheme* outer = find_scheme(*format);
  if (outer == nullptr && !is_text(*format, kMixed)) unknown_format(where, "format", &*format);
  if (outer != nullptr) result.*(outer->asked) = true;
  require(where, *quantization, "kv_cache_scheme", nullptr, format->get<std::string>());
  const auto groups = quantization->find("config_groups");
  const bool has_groups = groups != quantization->end() && groups->is_object() && !groups->empty();
  if (!has_groups && outer == nullptr) {
    fail(ErrorCode::kBadModel,
         "{}: quantization_config: {} needs config_groups, each with a format", where, kMixed);
  }
  if (!has_groups) return result;
  for (const auto& [name, group] : groups->items()) {
    result.*(check_group(where, name, group, outer).asked) = true;
  }
  return result;
}

void check_mxfp4_widths(ConfigReader& reader, const ModelConfig& config) {
  const auto check = [&](const ConfigKey& key, std::int64_t width) {
    if (width % kMxGroup == 0) return;
    reader.problem(key, fmt::format("{} is no multiple of {}, the group of MXFP4 experts "
                                    "(quantization_config)",
                                    width, kMxGroup));
  };
  const bool has_latent = config.moe.latent_size > 0;
  check({has_latent ? "routed_expert_hidden_size" : "hidden_size"},
        has_latent ? config.moe.latent_size : config.hidden_size);
  check({"moe_intermediate_size"}, config.moe.expert_ffn_size);
}

std::string with_quantization(std::string_view text, const Quantization& quantization) {
  ordered_json groups = ordered_json::object();
  const char* format = kMixed;
  for (const Scheme& scheme : kSchemes) {
    if (!(quantization.*(scheme.asked))) continue;
    groups["group_" + std::to_string(groups.size())] = describe_group(scheme);
    format = groups.size() == 1 ? scheme.format : kMixed;
  }
  ordered_json root = ordered_json::parse(text);
  if (root.contains("text_config")) root["text_config"].erase("quantization_config");
  root["quantization_config"] = {{"quant_method", kMethod},
                                 {"format", format},
                                 {"quantization_status", "compressed"},
                                 {"kv_cache_scheme", nullptr},
                                 {"config_groups", groups},
                                 {"ignore", ordered_json::array()}};
  return root.dump(2) + "\n";
}

}  // namespace baltoro
