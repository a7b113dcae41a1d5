#include "model/config_quantization.h"

#include "core/error.h"

namespace baltoro {
namespace {

using nlohmann::json;

constexpr const char* kMethod = "compressed-tensors";
constexpr const char* kFormat = "mxfp4-pack-quantized";

// `key` of `object` must be absent, null, or `expected`.
void require(const std::string& where, const json& object, const char* key, const json& expected) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null() || *found == expected) return;
  fail(ErrorCode::kBadModel,
       "{}: quantization_config: {} is {}; baltoro reads {} {} weights with {} {}", where, key,
       found->dump(), kMethod, kFormat, key, expected.dump());
}

void check_weights(const std::string& where, const json& weights) {
  require(where, weights, "num_bits", 4);
  require(where, weights, "type", "float");
  require(where, weights, "strategy", "group");
  require(where, weights, "group_size", 32);
  require(where, weights, "symmetric", true);
  require(where, weights, "dynamic", false);
}

void check_groups(const std::string& where, const json& groups) {
  for (const auto& [name, group] : groups.items()) {
    if (!group.is_object()) {
      fail(ErrorCode::kBadModel, "{}: quantization_config.config_groups.{}: expected an object",
           where, name);
    }
    require(where, group, "format", kFormat);
    require(where, group, "input_activations", nullptr);
    require(where, group, "output_activations", nullptr);
    const auto weights = group.find("weights");
    if (weights != group.end() && weights->is_object()) check_weights(where, *weights);
  }
}

}  // namespace

bool check_quantization(ConfigReader& reader) {
  const json* quantization = reader.find({"quantization_config"});
  if (quantization == nullptr) return false;
  const std::string& where = reader.where();
  if (!quantization->is_object()) {
    fail(ErrorCode::kBadModel, "{}: quantization_config: expected an object", where);
  }
  const auto method = quantization->find("quant_method");
  if (method == quantization->end() || *method != kMethod) {
    fail(ErrorCode::kBadModel,
         "{}: quantization_config: quant_method is {}; baltoro reads {} with format {}", where,
         method == quantization->end() ? "absent" : method->dump(), kMethod, kFormat);
  }
  const auto format = quantization->find("format");
  if (format == quantization->end() || *format != kFormat) {
    fail(ErrorCode::kBadModel, "{}: quantization_config: format is {}; baltoro reads {}", where,
         format == quantization->end() ? "absent" : format->dump(), kFormat);
  }
  require(where, *quantization, "kv_cache_scheme", nullptr);
  const auto groups = quantization->find("config_groups");
  if (groups != quantization->end() && groups->is_object()) check_groups(where, *groups);
  return true;
}

}  // namespace baltoro
