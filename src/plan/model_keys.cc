// Overrides of a model's sizes. A size goes by the symbol of docs/cost-model.md and by its key in
// config.json.
#include <array>

#include "plan/key_value.h"
#include "plan/model.h"

namespace baltoro::plan {
namespace {

// `ratio` KDA layers for each attention layer, the last layer attention.
void set_ratio(PlanModel& model, std::int64_t ratio) {
  const auto count = static_cast<std::int64_t>(model.config.layers.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const bool attention = (i + 1) % (ratio + 1) == 0 || i + 1 == count;
    model.config.layers[static_cast<std::size_t>(i)].mixer =
        attention ? MixerKind::kMla : MixerKind::kKda;
  }
}

// The same number of KDA layers for each attention layer, the same leading dense ones.
void set_num_layers(PlanModel& model, std::int64_t count) {
  const std::int64_t kda = model.num_kda();
  const std::int64_t attention = model.num_attn();
  std::vector<LayerSpec>& layers = model.config.layers;
  layers.resize(static_cast<std::size_t>(count), layers.back());
  model.config.num_layers = count;
  if (kda > 0 && attention > 0) set_ratio(model, (kda + attention / 2) / attention);
}

void set_dense_layers(PlanModel& model, std::int64_t dense) {
  auto& layers = model.config.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].ffn = static_cast<std::int64_t>(i) < dense ? FfnKind::kDense : FfnKind::kMoe;
  }
}

void set_heads(PlanModel& model, std::int64_t heads) {
  if (model.num_kda() > 0) model.config.kda.num_heads = heads;
  MlaConfig& mla = model.config.mla;
  if (mla.kind != MlaKind::kGqa) mla.num_kv_heads = heads;
  mla.num_heads = heads;
}

void set_kda_head_dim(PlanModel& model, std::int64_t size) {
  KdaConfig& kda = model.config.kda;
  kda.head_dim_k = kda.head_dim_v = kda.decay_rank = size;
  if (kda.output_gate == OutputGate::kLowRank) kda.gate_rank = size;
}

// 1 full rank, 0 none.
void set_gate(OutputGate& gate, std::int64_t& rank, std::int64_t value) {
  gate = value == 1 ? OutputGate::kFull : OutputGate::kNone;
  rank = 0;
}

struct Key {
  const char* symbol;
  const char* config_key;
  std::int64_t least;
  std::int64_t most;
  void (*set)(PlanModel& model, std::int64_t value);
};

constexpr std::int64_t kMost = std::int64_t{1} << 20;

constexpr std::array<Key, 25> kKeys = {{
    {"L", "num_hidden_layers", 1, 4096, set_num_layers},
    {"d", "hidden_size", 1, kMost, [](PlanModel& m, std::int64_t v) { m.config.hidden_size = v; }},
    {"V", "vocab_size", 1, 1 << 24, [](PlanModel& m, std::int64_t v) { m.config.vocab_size = v; }},
    {"H", "num_attention_heads", 1, 65536, set_heads},
    {"G", "num_key_value_heads", 1, 65536,
     [](PlanModel& m, std::int64_t v) { m.config.mla.num_kv_heads = v; }},
    {"d_h", "head_dim", 1, kMost, set_kda_head_dim},
    {"W", "short_conv_kernel_size", 1, 64,
     [](PlanModel& m, std::int64_t v) { m.config.kda.conv_width = v; }},
    {"r_q", "q_lora_rank", 0, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.mla.q_lora_rank = v; }},
    {"c", "kv_lora_rank", 1, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.mla.kv_lora_rank = v; }},
    {"s", "qk_rope_head_dim", 0, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.mla.qk_rope_dim = v; }},
    {"d_n", "qk_nope_head_dim", 1, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.mla.qk_nope_dim = v; }},
    {"d_v", "v_head_dim", 1, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.mla.v_head_dim = v; }},
    {"N", "num_experts", 1, 65536,
     [](PlanModel& m, std::int64_t v) { m.config.moe.num_experts = v; }},
    {"K", "num_experts_per_token", 1, 65536,
     [](PlanModel& m, std::int64_t v) { m.config.moe.experts_per_token = v; }},
    {"l", "routed_expert_hidden_size", 0, kMost,
     [](PlanModel& m, std::int64_t v) {
       m.config.moe.latent_size = v;
       m.config.moe.stable_norm = v > 0;
     }},
    {"m", "moe_intermediate_size", 1, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.moe.expert_ffn_size = v; }},
    {"n_s", "num_shared_experts", 0, 1024,
     [](PlanModel& m, std::int64_t v) { m.config.moe.num_shared_experts = v; }},
    {"ff", "intermediate_size", 1, kMost,
     [](PlanModel& m, std::int64_t v) { m.config.intermediate_size = v; }},
    {"R", "attn_res_block_size", 0, 4096,
     [](PlanModel& m, std::int64_t v) { m.config.attn_res_sublayers = 2 * v; }},
    {"dense_layers", "first_k_dense_replace", 0, 4096, set_dense_layers},
    {"ratio", "kda_per_attention", 0, 4096, set_ratio},
    {"expert_matrices", "matrices_per_expert", 2, 3,
     [](PlanModel& m, std::int64_t v) { m.expert_matrices = static_cast<int>(v); }},
    {"kda_gate", "use_full_rank_gate", 0, 1,
     [](PlanModel& m,
        std::int64_t v) { set_gate(m.config.kda.output_gate, m.config.kda.gate_rank, v); }},
    {"mla_gate", "mla_use_output_gate", 0, 1,
     [](PlanModel& m,
        std::int64_t v) { set_gate(m.config.mla.output_gate, m.config.mla.gate_rank, v); }},
    {"tied", "tie_word_embeddings", 0, 1,
     [](PlanModel& m, std::int64_t v) { m.config.tie_word_embeddings = v == 1; }},
}};

const Key& find_key(const std::string& name) {
  // Aliases that other files of the family use.
  const std::string wanted = name == "n_routed_experts"      ? "N"
                             : name == "num_experts_per_tok" ? "K"
                             : name == "n_shared_experts"    ? "n_s"
                                                             : name;
  for (const Key& key : kKeys) {
    if (wanted == key.symbol || wanted == key.config_key) return key;
  }
  fail_unknown("--set ", name, "size", override_keys());
}

}  // namespace

std::vector<std::string> override_keys() {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    names.emplace_back(key.symbol);
    names.emplace_back(key.config_key);
  }
  return names;
}

void apply_overrides(PlanModel& model, std::string_view text) {
  for (const auto& [name, value] : split_key_values("--set", text)) {
    const Key& key = find_key(name);
    key.set(model, parse_count("--set " + name, value, key.least, key.most));
  }
  check_model(model);
}

}  // namespace baltoro::plan
