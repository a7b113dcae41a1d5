#include "cli/plan_config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/format.h"
#include "core/error.h"
#include "core/suggest.h"
#include "io/json_file.h"

namespace baltoro::cli {
namespace {

namespace fs = std::filesystem;

// Spellings that model/config.cc reads.
const std::vector<std::string>& read_keys() {
  static const std::vector<std::string> keys = {"attn_res_block_size",
                                                "first_k_dense_replace",
                                                "head_dim",
                                                "hidden_size",
                                                "intermediate_size",
                                                "kv_lora_rank",
                                                "moe_intermediate_size",
                                                "moe_layer_freq",
                                                "n_routed_experts",
                                                "n_shared_experts",
                                                "num_attention_heads",
                                                "num_experts",
                                                "num_experts_per_tok",
                                                "num_experts_per_token",
                                                "num_heads",
                                                "num_hidden_layers",
                                                "num_key_value_heads",
                                                "num_shared_experts",
                                                "q_lora_rank",
                                                "qk_nope_head_dim",
                                                "qk_rope_head_dim",
                                                "routed_expert_hidden_size",
                                                "short_conv_kernel_size",
                                                "v_head_dim",
                                                "vocab_size"};
  return keys;
}

// Of router groups, drafts and training: no weight of the model depends on them.
constexpr std::array<std::string_view, 4> kShapeless = {"n_group", "num_expert_group",
                                                        "num_nextn_predict_layers", "ep_size"};

bool is_size_name(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings = {"_size",   "_sizes", "_dim",    "_rank",
                                                        "_layers", "_heads", "_experts"};
  return name.starts_with("num_") || name.starts_with("n_") ||
         std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

void find_unknown(const nlohmann::json& object, const std::string& section,
                  std::vector<std::string>& unknown) {
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number_integer() || value <= 1 || !is_size_name(name)) continue;
    const std::vector<std::string>& read = read_keys();
    if (std::find(read.begin(), read.end(), name) != read.end()) continue;
    if (std::find(kShapeless.begin(), kShapeless.end(), name) != kShapeless.end()) continue;
    const std::string similar = nearest(name, read);
    unknown.push_back(fmt::format("{}{} = {}{}", section, name, value.dump(),
                                  similar.empty() ? "" : ", did you mean " + similar + "?"));
  }
}

}  // namespace

void check_shape_keys(const std::string& path) {
  const fs::path file = fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
  const JsonDocument document = parse_json(read_text(file.string()), file.string());
  const nlohmann::json& root = *document;
  std::vector<std::string> unknown;
  find_unknown(root, "", unknown);
  const bool nested = root.contains("text_config");
  const nlohmann::json& model = nested ? root["text_config"] : root;
  const std::string section = nested ? "text_config." : "";
  if (nested) find_unknown(model, section, unknown);
  if (model.contains("linear_attn_config")) {
    find_unknown(model["linear_attn_config"], section + "linear_attn_config.", unknown);
  }
  if (unknown.empty()) return;
  fail(ErrorCode::kBadModel,
       "{}: sizes that baltoro does not know: {}; the plan would leave them out, so remove or "
       "rename "
       "them",
       file.string(), fmt::join(unknown, "; "));
}

}  // namespace baltoro::cli
