// The shape of a model, read from config.json (docs/config.md): plain integers and enums that every
// later stage reads. Released Kimi K3 and Kimi Linear files and the variants of the `baltoro`
// object. The form is decided by the keys present, never by model_type. Layer indices are 0-based
// from here on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/glu_mlp.h"
#include "ops/kda.h"
#include "ops/mla.h"

namespace baltoro {

enum class MixerKind : std::uint8_t { kKda, kMla };
enum class FfnKind : std::uint8_t { kDense, kMoe };
// kFull: one matrix; kLowRank: two matrices through `gate_rank`; kNone: no gate tensors.
enum class OutputGate : std::uint8_t { kNone, kLowRank, kFull };

struct LayerSpec {
  MixerKind mixer = MixerKind::kKda;
  FfnKind ffn = FfnKind::kDense;
  bool operator==(const LayerSpec&) const = default;
};

// Kimi Delta Attention. All zero where the model has no KDA layer.
struct KdaConfig {
  std::int64_t num_heads = 0;
  std::int64_t head_dim_k = 0;
  std::int64_t head_dim_v = 0;
  std::int64_t conv_width = 0;
  // Present, the bound in [-5, 0):
  //
  //   g = bound * sigmoid(exp(A_log) z)
  //
  // Absent:
  //
  //   g = -exp(A_log) softplus(z)
  std::optional<float> gate_lower_bound;
  // Gated DeltaNet: one g a head, f_b_proj [H, decay_rank].
  bool decay_per_head = false;
  OutputGate output_gate = OutputGate::kNone;
  // Rows of g_a_proj; 0 unless kLowRank.
  std::int64_t gate_rank = 0;
  // Rows of f_a_proj.
  std::int64_t decay_rank = 0;

  std::int64_t key_width() const { return num_heads * head_dim_k; }
  std::int64_t value_width() const { return num_heads * head_dim_v; }
  // Rows of f_b_proj and entries of dt_bias: H * Dk, or H with one decay a head.
  std::int64_t decay_width() const { return decay_per_head ? num_heads : key_width(); }
};

// Multi-head latent attention and its variants. All zero where the model has no such layer.
struct MlaConfig {
  MlaKind kind = MlaKind::kLatent;
  std::int64_t num_heads = 0;
  // kGqa: G; else equal to num_heads.
  std::int64_t num_kv_heads = 0;
  std::int64_t qk_nope_dim = 0;
  // The side branch; 0 where it is absent.
  std::int64_t qk_rope_dim = 0;
  std::int64_t v_head_dim = 0;
  // 0: a plain q_proj.
  std::int64_t q_lora_rank = 0;
  // 0 for kGqa.
  std::int64_t kv_lora_rank = 0;
  // Present: the side branch is rotated.
  std::optional<float> rope_theta;
  OutputGate output_gate = OutputGate::kNone;
  // Rows of g_a_proj; 0 unless kLowRank.
  std::int64_t gate_rank = 0;

  // Width of one head's query: Dn + Dr.
  std::int64_t qk_dim() const { return qk_nope_dim + qk_rope_dim; }
  std::int64_t value_width() const { return num_heads * v_head_dim; }
  // Values that one token leaves in the cache.
  std::int64_t cache_width() const {
    return kind == MlaKind::kGqa ? num_kv_heads * (qk_nope_dim + v_head_dim)
                                 : kv_lora_rank + qk_rope_dim;
  }
};

// The op's view of a configured mixer.
inline KdaShape kda_shape(const KdaConfig& config) {
  return {.num_heads = config.num_heads,
          .head_dim_k = config.head_dim_k,
          .head_dim_v = config.head_dim_v,
          .conv_width = config.conv_width,
          .decay_per_head = config.decay_per_head};
}
inline MlaShape mla_shape(const MlaConfig& config) {
  return {.kind = config.kind,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .nope_dim = config.qk_nope_dim,
          .rope_dim = config.qk_rope_dim,
          .v_head_dim = config.v_head_dim,
          .kv_rank = config.kv_lora_rank};
}

// Mixture of experts. All zero where every layer is dense.
struct MoeConfig {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t num_shared_experts = 0;
  std::int64_t expert_ffn_size = 0;
  // 0: full-width experts.
  std::int64_t latent_size = 0;
  // RMSNorm on the weighted sum; needs a latent.
  bool stable_norm = false;
  bool renormalize = false;
  float routed_scaling_factor = 1.0f;
  // gate.weight [E, Z] reads the down-projected input.
  bool router_reads_latent = false;

  std::int64_t shared_ffn_size() const { return num_shared_experts * expert_ffn_size; }
};

// The vision tower: counted and skipped, never run.
struct VisionConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t qkv_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t patch_size = 0;
  std::int64_t position_height = 0;
  std::int64_t position_width = 0;
  std::int64_t merge = 0;  // patches that one projector row joins
  std::int64_t text_hidden_size = 0;
};

// How a checkpoint of this configuration is written; a loader goes by the tensors it finds.
struct ReleaseLayout {
  // Keys under text_config, names under language_model., F32 conv.
  bool nested = false;
  // quantization_config asks for them.
  bool mxfp4_experts = false;
  bool mxint8_trunk = false;
};

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  // Of the dense FFN; 0 where no layer is dense.
  std::int64_t intermediate_size = 0;
  float rms_norm_eps = 0.0f;
  // Of q_a_layernorm and kv_a_layernorm.
  float latent_norm_eps = 1e-6f;
  std::vector<LayerSpec> layers;
  KdaConfig kda;
  MlaConfig mla;
  MoeConfig moe;
  // Of dense, shared and routed MLPs.
  Activation activation;
  // Block length of Attention Residuals; 0: plain residual.
  std::int64_t attn_res_sublayers = 0;
  // lm_head is the embedding.
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
  std::optional<std::int64_t> pad_token_id;
  // Tokens of the longest sequence that the model was made for. Nothing is sized by it.
  std::optional<std::int64_t> max_positions;
  std::optional<VisionConfig> vision;
  ReleaseLayout layout;

  bool has_attn_res() const { return attn_res_sublayers > 0; }
  std::int64_t num_layers_of(MixerKind kind) const;
  std::int64_t num_layers_of(FfnKind kind) const;
};

struct ConfigOptions {
  std::optional<float> latent_norm_eps;  // overrides the file
};

// The config.json of a directory, or `path` itself where it is a file. Throws Error{kBadModel} where
// there is none.
std::filesystem::path find_config_file(const std::filesystem::path& path);

// The text of such a file. Throws as read_text_file.
std::string read_config_text(const std::filesystem::path& file);

// Reads DIR/config.json, or the file itself. Throws as find_config_file, read_text_file and
// parse_config.
ModelConfig load_config(const std::filesystem::path& path, const ConfigOptions& options = {});

// `where` names the text in messages. Throws Error{kBadModel}: one that lists all missing keys, or
// one that lists each contradiction as key, value and rule; or a quantisation method or routing
// scheme that baltoro does not do.
ModelConfig parse_config(std::string_view text, const std::string& where,
                         const ConfigOptions& options = {});

// generation_config.json: sampling defaults and stop ids. Absent fields stay empty.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> max_new_tokens;
  std::vector<std::int64_t> stop_ids;
};

// An empty struct where DIR has no such file. Throws Error{kBadModel} on malformed or out-of-range
// values.
GenerationConfig load_generation_config(const std::filesystem::path& dir);
GenerationConfig parse_generation_config(std::string_view text, const std::string& where);

}  // namespace baltoro
