#include "model/config.h"

#include <algorithm>

#include "core/error.h"
#include "io/file_reader.h"
#include "io/json_file.h"
#include "model/config_quantization.h"
#include "model/config_reader.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{64} << 20;

// Bounds far above any model of the family; the bytes of one tensor stay below 2^63.
constexpr IntegerRange kCount = {1, 1 << 20};
constexpr IntegerRange kCountOrZero = {0, 1 << 20};
constexpr IntegerRange kHeadCount = {1, 65536};
constexpr IntegerRange kExpertCount = {1, 65536};
constexpr IntegerRange kLayerCount = {1, 4096};
constexpr NumberRange kEpsilon = {0.0, 0.1};
constexpr NumberRange kScale = {0.0, 1e6};

constexpr std::string_view kLinear = "linear_attn_config";
constexpr std::string_view kOwn = "baltoro";

// Marks the layers of one 1-based list; records entries outside of 1..L and repeated ones.
void mark_layers(ConfigReader& reader, const ConfigKey& key, const std::vector<std::int64_t>& list,
                 std::vector<int>& owner, int mark) {
  const auto count = static_cast<std::int64_t>(owner.size());
  for (std::int64_t layer : list) {
    if (layer < 1 || layer > count) {
      reader.problem(key,
                     fmt::format("{} is no layer; the list is 1-based, 1 to {}", layer, count));
      continue;
    }
    int& slot = owner[static_cast<std::size_t>(layer - 1)];
    if (slot == mark) {
      reader.problem(key, fmt::format("layer {} stands twice", layer));
    } else if (slot != 0) {
      reader.problem(key, fmt::format("layer {} stands in kda_layers and in full_attn_layers; the "
                                      "rule is exactly one of them",
                                      layer));
    }
    slot = mark;
  }
}

void read_layers(ConfigReader& reader, ModelConfig& config) {
  const ConfigKey kda_key = {.name = "kda_layers", .section = kLinear};
  const ConfigKey full_key = {.name = "full_attn_layers", .section = kLinear};
  config.num_layers = reader.integer({"num_hidden_layers"}, kLayerCount);
  const ConfigKey first_key = {"first_k_dense_replace"};
  const std::int64_t first_moe = reader.integer(first_key, kCountOrZero);
  const std::int64_t every = reader.integer({"moe_layer_freq"}, kCount);
  const auto kda = reader.integers(kda_key);
  const auto full = reader.integers(full_key);
  if (config.num_layers == 0) return;  // it is the measure of what follows
  if (first_moe > config.num_layers) {
    reader.problem(first_key,
                   fmt::format("{} exceeds num_hidden_layers {}", first_moe, config.num_layers));
  }
  if (!kda || !full) return;

  std::vector<int> owner(static_cast<std::size_t>(config.num_layers), 0);
  mark_layers(reader, kda_key, *kda, owner, 1);
  mark_layers(reader, full_key, *full, owner, 2);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const int mark = owner[static_cast<std::size_t>(i)];
    const bool moe = every > 0 && i >= first_moe && i % every == 0;
    config.layers.push_back(
        {mark == 2 ? MixerKind::kMla : MixerKind::kKda, moe ? FfnKind::kMoe : FfnKind::kDense});
  }
  const auto gap = std::find(owner.begin(), owner.end(), 0);
  if (gap != owner.end()) {
    reader.problem(kda_key,
                   fmt::format("{} layers, such as {}, stand neither here nor in "
                               "full_attn_layers; the rule is exactly one of them",
                               std::count(owner.begin(), owner.end(), 0), gap - owner.begin() + 1));
  }
}

void read_kda(ConfigReader& reader, KdaConfig& kda) {
  kda.num_heads = reader.integer({.name = "num_heads", .section = kLinear}, kHeadCount);
  kda.head_dim_k = reader.integer({.name = "head_dim", .section = kLinear}, kCount);
  kda.head_dim_v = reader.optional_integer({.name = "kda_v_head_dim", .section = kOwn}, kCount)
                       .value_or(kda.head_dim_k);
  kda.conv_width = reader.integer({.name = "short_conv_kernel_size", .section = kLinear}, {1, 64});
  kda.decay_rank = kda.head_dim_k;
  kda.decay_per_head = reader.optional_choice({.name = "decay", .section = kOwn},
                                              {"per_channel", "per_head"}) == std::size_t{1};

  const ConfigKey bound_key = {.name = "gate_lower_bound", .section = kLinear};
  const NumberRange bound_range = {
      .above = -5.0, .most = 0.0, .above_included = true, .most_excluded = true};
  if (const auto bound = reader.optional_number(bound_key, bound_range)) {
    kda.gate_lower_bound = static_cast<float>(*bound);
  }

  const ConfigKey full_key = {.name = "use_full_rank_gate", .section = kLinear};
  const ConfigKey gate_key = {.name = "kda_output_gate", .section = kOwn};
  const std::optional<bool> full = reader.optional_boolean(full_key);
  const auto gate = reader.optional_choice(gate_key, {"none", "low_rank", "full"});
  kda.output_gate = full.value_or(false) ? OutputGate::kFull : OutputGate::kLowRank;
  if (gate) kda.output_gate = static_cast<OutputGate>(*gate);
  if (gate && full && *full != (kda.output_gate == OutputGate::kFull)) {
    reader.problem(gate_key, fmt::format("contradicts {}.use_full_rank_gate {}", kLinear, *full));
  }
  kda.gate_rank = kda.output_gate == OutputGate::kLowRank ? kda.head_dim_k : 0;
}

void read_mla_gate(ConfigReader& reader, MlaConfig& mla) {
  const ConfigKey gate_key = {.name = "mla_output_gate", .section = kOwn};
  const std::optional<bool> full = reader.optional_boolean({"mla_use_output_gate"});
  const auto gate = reader.optional_choice(gate_key, {"none", "low_rank", "full"});
  mla.output_gate = full.value_or(false) ? OutputGate::kFull : OutputGate::kNone;
  if (gate) mla.output_gate = static_cast<OutputGate>(*gate);
  if (gate && full && *full != (mla.output_gate != OutputGate::kNone)) {
    reader.problem(gate_key, fmt::format("contradicts mla_use_output_gate {}", *full));
  }
  mla.gate_rank = mla.output_gate == OutputGate::kLowRank ? mla.v_head_dim : 0;
}

void read_rotation(ConfigReader& reader, MlaConfig& mla) {
  const bool no_rotation = reader.boolean({"mla_use_nope"});
  if (no_rotation || !reader.present({"mla_use_nope"})) return;
  mla.rope_theta = static_cast<float>(reader.number({"rope_theta"}, {0.0, 1e12}));
  if (reader.present({"rope_scaling"})) {
    reader.problem({"rope_scaling"}, "not supported with mla_use_nope false; the rule is null");
  }
  const bool even = mla.qk_rope_dim % 2 == 0 && mla.qk_rope_dim > 0;
  if (reader.present({"qk_rope_head_dim"}) && !even) {
    reader.problem({"qk_rope_head_dim"},
                   fmt::format("{} cannot be rotated (mla_use_nope false); the rule is even and "
                               "above 0",
                               mla.qk_rope_dim));
  }
}

// The rules between the key that selects a form of keys and values and the sizes of that form. A
// size of 0 was not read, which is said elsewhere.
void check_mla_kind(ConfigReader& reader, MlaConfig& mla, std::optional<std::int64_t> kv_heads) {
  const bool sizes_read = mla.num_heads > 0 && mla.qk_nope_dim > 0;
  if (mla.kind == MlaKind::kMqa && sizes_read && mla.kv_lora_rank > 0 &&
      mla.qk_nope_dim != mla.kv_lora_rank) {
    reader.problem(
        {"qk_nope_head_dim"},
        fmt::format("{} differs from kv_lora_rank {}; baltoro.mla_kv mqa needs them equal",
                    mla.qk_nope_dim, mla.kv_lora_rank));
  }
  if (mla.kind == MlaKind::kLatent && sizes_read && kv_heads && *kv_heads != mla.num_heads) {
    reader.problem({"num_key_value_heads"},
                   fmt::format("{} differs from num_attention_heads {}; in latent attention every "
                               "head has its own keys and values",
                               *kv_heads, mla.num_heads));
  }
  if (mla.kind != MlaKind::kGqa) return;
  if (reader.present({"kv_lora_rank"})) {
    reader.problem({"kv_lora_rank"},
                   "baltoro.mla_kv gqa has no latent; the rule is null or absent");
  }
  if (mla.qk_rope_dim != 0) {
    reader.problem({"qk_rope_head_dim"},
                   fmt::format("{} with baltoro.mla_kv gqa; the rule is 0", mla.qk_rope_dim));
  }
  if (mla.num_kv_heads > 0 && mla.num_heads % mla.num_kv_heads != 0) {
    reader.problem({"num_key_value_heads"}, fmt::format("{} does not divide num_attention_heads {}",
                                                        mla.num_kv_heads, mla.num_heads));
  }
}

void read_mla(ConfigReader& reader, MlaConfig& mla) {
  const auto kind =
      reader.optional_choice({.name = "mla_kv", .section = kOwn}, {"latent", "mqa", "gqa"});
  constexpr MlaKind kKinds[] = {MlaKind::kLatent, MlaKind::kMqa, MlaKind::kGqa};
  mla.kind = kKinds[kind.value_or(0)];
  mla.num_heads = reader.integer({"num_attention_heads"}, kHeadCount);
  mla.qk_nope_dim = reader.integer({"qk_nope_head_dim"}, kCount);
  mla.qk_rope_dim = reader.integer({"qk_rope_head_dim"}, kCountOrZero);
  mla.v_head_dim = reader.integer({"v_head_dim"}, kCount);
  mla.q_lora_rank = reader.optional_integer({"q_lora_rank"}, kCount).value_or(0);

  std::optional<std::int64_t> kv_heads;
  if (mla.kind == MlaKind::kGqa) {
    mla.num_kv_heads = reader.integer({"num_key_value_heads"}, kHeadCount);
  } else {
    kv_heads = reader.optional_integer({"num_key_value_heads"}, kHeadCount);
    mla.num_kv_heads = mla.num_heads;
    mla.kv_lora_rank = reader.integer({"kv_lora_rank"}, kCount);
  }
  check_mla_kind(reader, mla, kv_heads);
  read_rotation(reader, mla);
  read_mla_gate(reader, mla);
}

void read_routing(ConfigReader& reader, MoeConfig& moe) {
  moe.renormalize = reader.boolean({"moe_renormalize", "norm_topk_prob"});
  moe.routed_scaling_factor = static_cast<float>(reader.number({"routed_scaling_factor"}, kScale));
  reader.choice({"moe_router_activation_func", "scoring_func"}, {"sigmoid"});
  reader.optional_choice({"topk_method"}, {"noaux_tc"});
  const ConfigKey groups_key = {"num_expert_group", "n_group"};
  const auto groups = reader.optional_integer(groups_key, kCount);
  reader.optional_integer({"topk_group"}, kCount);
  if (groups.value_or(1) != 1) {
    reader.problem(groups_key,
                   fmt::format("{} expert groups are not supported; the rule is 1", *groups));
  }
}

void read_moe(ConfigReader& reader, MoeConfig& moe) {
  const ConfigKey top_key = {"num_experts_per_token", "num_experts_per_tok"};
  moe.num_experts = reader.integer({"num_experts", "n_routed_experts"}, kExpertCount);
  moe.experts_per_token = reader.integer(top_key, kExpertCount);
  moe.num_shared_experts = reader.integer({"num_shared_experts", "n_shared_experts"}, {0, 1024});
  moe.expert_ffn_size = reader.integer({"moe_intermediate_size"}, kCount);
  if (moe.num_experts > 0 && moe.experts_per_token > moe.num_experts) {
    reader.problem(
        top_key, fmt::format("{} exceeds num_experts {}", moe.experts_per_token, moe.num_experts));
  }

  const ConfigKey norm_key = {"latent_moe_use_norm"};
  const bool has_latent = reader.present({"routed_expert_hidden_size"});
  if (has_latent) {
    moe.latent_size = reader.integer({"routed_expert_hidden_size"}, kCount);
    moe.stable_norm = reader.boolean(norm_key);
  } else if (reader.optional_boolean(norm_key).value_or(false)) {
    reader.problem(norm_key, "true without routed_expert_hidden_size; the norm is the latent's");
  }
  const ConfigKey input_key = {.name = "router_input", .section = kOwn};
  moe.router_reads_latent =
      reader.optional_choice(input_key, {"model", "latent"}) == std::size_t{1};
  if (moe.router_reads_latent && !has_latent) {
    reader.problem(input_key, "latent without routed_expert_hidden_size");
  }
  read_routing(reader, moe);
}

void read_activation(ConfigReader& reader, Activation& activation) {
  const std::size_t kind = reader.choice({"hidden_act"}, {"situ", "silu"});
  activation.kind = kind == 1 ? ActivationKind::kSwiglu : ActivationKind::kSitu;
  if (kind == 1) return;
  activation.beta = static_cast<float>(reader.number({"activation_situ_beta"}, kScale));
  activation.linear_beta =
      static_cast<float>(reader.number({"activation_situ_linear_beta"}, kScale));
}

void read_attn_res(ConfigReader& reader, ModelConfig& config) {
  const ConfigKey own_key = {.name = "attn_res_sublayers", .section = kOwn};
  const auto block = reader.optional_integer({"attn_res_block_size"}, kLayerCount);
  const auto sublayers = reader.optional_integer(own_key, {1, 2 * kLayerCount.most});
  if (block && sublayers) {
    reader.problem(own_key, "stands beside attn_res_block_size; keep one of them");
  }
  config.attn_res_sublayers = sublayers.value_or(2 * block.value_or(0));
}

void read_token_ids(ConfigReader& reader, ModelConfig& config) {
  if (config.vocab_size == 0) return;
  const IntegerRange range = {0, config.vocab_size - 1};
  config.bos_token_id = reader.optional_integer({"bos_token_id"}, range);
  config.pad_token_id = reader.optional_integer({"pad_token_id"}, range);
  config.eos_token_id = reader.optional_integer({"eos_token_id"}, range);
}

void read_max_positions(ConfigReader& reader, ModelConfig& config) {
  constexpr IntegerRange kPositions = {1, std::int64_t{1} << 40};
  config.max_positions = reader.optional_integer({"max_position_embeddings"}, kPositions);
  if (!config.max_positions) {
    config.max_positions = reader.optional_integer({"model_max_length"}, kPositions);
  }
}

// Nothing unless every size is there: the text model does not need it.
std::optional<VisionConfig> read_vision(const nlohmann::json& root) {
  const auto found = root.find("vision_config");
  if (found == root.end() || !found->is_object()) return std::nullopt;
  bool complete = true;
  const auto size = [&](const nlohmann::json& value, std::uint64_t most) -> std::int64_t {
    const bool ok = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                    value.get<std::uint64_t>() <= most;
    complete = complete && ok;
    return ok ? value.get<std::int64_t>() : 0;
  };
  const auto get = [&](const char* key) -> std::int64_t {
    const auto value = found->find(key);
    if (value != found->end()) return size(*value, 65536);
    complete = false;
    return 0;
  };
  VisionConfig vision;
  vision.hidden_size = get("vt_hidden_size");
  vision.num_layers = get("vt_num_hidden_layers");
  vision.qkv_size = get("qkv_hidden_size");
  vision.intermediate_size = get("vt_intermediate_size");
  vision.patch_size = get("patch_size");
  vision.position_height = get("init_pos_emb_height");
  vision.position_width = get("init_pos_emb_width");
  vision.text_hidden_size = get("text_hidden_size");
  const auto merge = found->find("merge_kernel_size");
  if (merge == found->end() || !merge->is_array() || merge->size() != 2) return std::nullopt;
  vision.merge = size((*merge)[0], 64) * size((*merge)[1], 64);
  if (!complete) return std::nullopt;
  return vision;
}

void read_top(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer({"vocab_size"}, {1, 1 << 24});
  config.hidden_size = reader.integer({"hidden_size"}, kCount);
  config.rms_norm_eps = static_cast<float>(reader.number({"rms_norm_eps"}, kEpsilon));
  config.tie_word_embeddings = reader.boolean({"tie_word_embeddings"});
  const auto latent_eps =
      reader.optional_number({.name = "latent_norm_eps", .section = kOwn}, kEpsilon);
  if (latent_eps) config.latent_norm_eps = static_cast<float>(*latent_eps);
  if (reader.nested() && reader.root().contains(kOwn)) {
    reader.problem("baltoro stands at the top level; move it into text_config");
  }
  reader.check_known(kOwn, {"decay", "kda_v_head_dim", "kda_output_gate", "mla_output_gate",
                            "mla_kv", "router_input", "attn_res_sublayers", "latent_norm_eps"});
}

bool has(const ModelConfig& config, MixerKind kind) { return config.num_layers_of(kind) > 0; }
bool has(const ModelConfig& config, FfnKind kind) { return config.num_layers_of(kind) > 0; }

}  // namespace

std::int64_t ModelConfig::num_layers_of(MixerKind kind) const {
  return std::count_if(layers.begin(), layers.end(),
                       [kind](const LayerSpec& layer) { return layer.mixer == kind; });
}

std::int64_t ModelConfig::num_layers_of(FfnKind kind) const {
  return std::count_if(layers.begin(), layers.end(),
                       [kind](const LayerSpec& layer) { return layer.ffn == kind; });
}

ModelConfig parse_config(std::string_view text, const std::string& where,
                         const ConfigOptions& options) {
  const JsonDocument root = parse_json(text, where);
  ConfigReader reader(*root, where);
  ModelConfig config;
  config.layout.nested = reader.nested();
  const Quantization quantization = check_quantization(reader);
  config.layout.mxfp4_experts = quantization.mxfp4_experts;
  config.layout.mxint8_trunk = quantization.mxint8_trunk;
  read_top(reader, config);
  read_layers(reader, config);
  // Without a list of layers every kind may be there: the error then names all their keys.
  const bool unknown = config.layers.empty();
  if (unknown || has(config, MixerKind::kKda)) read_kda(reader, config.kda);
  if (unknown || has(config, MixerKind::kMla)) read_mla(reader, config.mla);
  if (unknown || has(config, FfnKind::kMoe)) {
    read_moe(reader, config.moe);
    if (config.layout.mxfp4_experts) check_mxfp4_widths(reader, config);
  }
  if (unknown || has(config, FfnKind::kDense)) {
    config.intermediate_size = reader.integer({"intermediate_size"}, kCount);
  }
  read_activation(reader, config.activation);
  read_attn_res(reader, config);
  read_token_ids(reader, config);
  read_max_positions(reader, config);
  reader.throw_if_bad();

  config.vision = read_vision(*root);
  if (options.latent_norm_eps) {
    const float eps = *options.latent_norm_eps;
    if (!(eps > 0.0f && eps <= 0.1f)) {
      fail(ErrorCode::kUsage, "latent norm eps: {} is out of range; the rule is (0, 0.1]", eps);
    }
    config.latent_norm_eps = eps;
  }
  return config;
}

std::filesystem::path find_config_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    fail(ErrorCode::kBadModel,
         "{}: no such directory; give a checkpoint's directory (config.json, *.safetensors)",
         path.string());
  }
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::filesystem::path file = path / "config.json";
  if (!std::filesystem::exists(file, ignored)) {
    fail(ErrorCode::kBadModel, "{}: no such file; is this a model directory?", file.string());
  }
  return file;
}

std::string read_config_text(const std::filesystem::path& file) {
  return read_text_file(file, kMaxConfigBytes);
}

ModelConfig load_config(const std::filesystem::path& path, const ConfigOptions& options) {
  const std::filesystem::path file = find_config_file(path);
  return parse_config(read_config_text(file), file.string(), options);
}

}  // namespace baltoro
