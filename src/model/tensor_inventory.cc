#include "model/tensor_inventory.h"

#include <algorithm>

#include "core/error.h"
#include "core/mxfp4.h"
#include "model/tensor_names.h"

namespace baltoro {
namespace {

// Collects the tensors of one part. `component` and `prefix` hold for those that follow.
class Inventory {
 public:
  explicit Inventory(const ModelConfig& config)
      : config_(config), names_(config.layout.nested), hidden_(config.hidden_size) {}

  std::vector<TensorSpec> take() { return std::move(tensors_); }

  void embedding() {
    component_ = Component::kEmbedding;
    matrix(names_.model("embed_tokens"), config_.vocab_size, hidden_);
  }

  void layer(std::int64_t layer_idx, std::int64_t first_expert, std::int64_t end_expert) {
    const LayerSpec spec = config_.layers[static_cast<std::size_t>(layer_idx)];
    component_ = Component::kNorms;
    norm(names_.layer(layer_idx, "input_layernorm"), hidden_);
    norm(names_.layer(layer_idx, "post_attention_layernorm"), hidden_);
    if (config_.has_attn_res()) {
      residual(names_.layer(layer_idx, "self_attention_res"));
      residual(names_.layer(layer_idx, "mlp_res"));
    }
    const std::string mixer = names_.layer(layer_idx, "self_attn.");
    if (spec.mixer == MixerKind::kKda) {
      kda(mixer);
    } else {
      mla(mixer);
    }
    if (spec.ffn == FfnKind::kDense) {
      component_ = Component::kDenseFfn;
      glu(names_.layer(layer_idx, "mlp."), config_.intermediate_size);
      return;
    }
    moe(names_.layer(layer_idx, "block_sparse_moe."));
    component_ = Component::kExperts;
    for (std::int64_t e = first_expert; e < end_expert; ++e) expert(layer_idx, e);
  }

  void end() {
    component_ = Component::kNorms;
    if (config_.has_attn_res()) residual(names_.model("output_attn_res"));
    norm(names_.model("norm"), hidden_);
    component_ = Component::kHead;
    if (!config_.tie_word_embeddings) trunk(names_.top("lm_head"), config_.vocab_size, hidden_);
  }

  void vision() {
    if (!config_.vision) return;
    const VisionConfig& v = *config_.vision;
    component_ = Component::kVisionTower;
    add("vision_tower.patch_embed.proj.weight", DType::kBf16,
        {v.hidden_size, 3, v.patch_size, v.patch_size});
    add("vision_tower.patch_embed.pos_emb.weight", DType::kBf16,
        {v.position_height, v.position_width, v.hidden_size});
    for (std::int64_t i = 0; i < v.num_layers; ++i) {
      const std::string block = fmt::format("vision_tower.encoder.blocks.{}.", i);
      norm(block + "norm0", v.hidden_size);
      norm(block + "norm1", v.hidden_size);
      matrix(block + "wqkv", 3 * v.qkv_size, v.hidden_size);
      matrix(block + "wo", v.hidden_size, v.qkv_size);
      matrix(block + "mlp.fc0", v.intermediate_size, v.hidden_size);
      matrix(block + "mlp.fc1", v.hidden_size, v.intermediate_size);
    }
    norm("vision_tower.encoder.final_layernorm", v.hidden_size);
    component_ = Component::kProjector;
    const std::int64_t merged = v.hidden_size * v.merge;
    matrix("mm_projector.proj.0", merged, merged);
    matrix("mm_projector.proj.2", v.text_hidden_size, merged);
    norm("mm_projector.post_norm", v.text_hidden_size);
  }

 private:
  void add(const std::string& name, DType dtype, const Shape& shape,
           TensorRole role = TensorRole::kMatrix) {
    tensors_.push_back({name, dtype, shape, component_, role});
  }
  void matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    add(name + ".weight", DType::kBf16, {rows, cols});
  }
  void trunk(const std::string& name, std::int64_t rows, std::int64_t cols) {
    if (cols % kMxGroup != 0) return matrix(name, rows, cols);
    if (!config_.layout.mxint8_trunk) {
      return add(name + ".weight", DType::kBf16, {rows, cols}, TensorRole::kTrunkMatrix);
    }
    add(name + ".weight_packed", DType::kI8, {rows, cols}, TensorRole::kInt8Codes);
    add(name + ".weight_scale", DType::kU8, {rows, cols / kMxGroup}, TensorRole::kInt8Scales);
  }
  void norm(const std::string& name, std::int64_t size, DType dtype = DType::kBf16) {
    add(name + ".weight", dtype, {size}, TensorRole::kNorm);
  }
  void residual(const std::string& name) {
    norm(name + "_norm", hidden_);
    add(name + "_proj.weight", DType::kBf16, {1, hidden_}, TensorRole::kResidualProj);
  }
  void glu(const std::string& name, std::int64_t width) {
    trunk(name + "gate_proj", width, hidden_);
    trunk(name + "up_proj", width, hidden_);
    trunk(name + "down_proj", hidden_, width);
  }
  void gate(const std::string& mixer, OutputGate kind, std::int64_t rank, std::int64_t width) {
    if (kind == OutputGate::kFull) trunk(mixer + "g_proj", width, hidden_);
    if (kind != OutputGate::kLowRank) return;
    trunk(mixer + "g_a_proj", rank, hidden_);
    trunk(mixer + "g_b_proj", width, rank);
  }

  // f_a, f_b and b stay: their errors add up over the recurrence's exponents, and they are small.
  void kda(const std::string& mixer) {
    const KdaConfig& c = config_.kda;
    // K3 stores the small KDA tensors as F32 and pads A_log to the head width; Kimi Linear neither.
    const bool k3 = config_.layout.nested;
    const DType small = k3 ? DType::kF32 : DType::kBf16;
    component_ = Component::kKda;
    trunk(mixer + "q_proj", c.key_width(), hidden_);
    trunk(mixer + "k_proj", c.key_width(), hidden_);
    trunk(mixer + "v_proj", c.value_width(), hidden_);
    for (const char* name : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
      const std::int64_t channels = name[0] == 'v' ? c.value_width() : c.key_width();
      add(mixer + name + ".weight", small, {channels, 1, c.conv_width}, TensorRole::kConv);
    }
    const Shape padded = {std::max(c.num_heads, c.head_dim_k)};
    add(mixer + "A_log", DType::kF32, k3 ? padded : Shape{1, 1, c.num_heads, 1}, TensorRole::kALog);
    add(mixer + "dt_bias", DType::kF32, {c.decay_width()}, TensorRole::kDtBias);
    matrix(mixer + "f_a_proj", c.decay_rank, hidden_);
    matrix(mixer + "f_b_proj", c.decay_width(), c.decay_rank);
    matrix(mixer + "b_proj", c.num_heads, hidden_);
    gate(mixer, c.output_gate, c.gate_rank, c.value_width());
    norm(mixer + "o_norm", c.head_dim_v, small);
    trunk(mixer + "o_proj", hidden_, c.value_width());
  }

  // kv_b stays: absorbed decode reads it across its groups.
  void mla(const std::string& mixer) {
    const MlaConfig& c = config_.mla;
    const std::int64_t query_width = c.num_heads * c.qk_dim();
    component_ = Component::kMla;
    if (c.q_lora_rank > 0) {
      trunk(mixer + "q_a_proj", c.q_lora_rank, hidden_);
      norm(mixer + "q_a_layernorm", c.q_lora_rank);
      trunk(mixer + "q_b_proj", query_width, c.q_lora_rank);
    } else {
      trunk(mixer + "q_proj", query_width, hidden_);
    }
    if (c.kind == MlaKind::kGqa) {
      trunk(mixer + "k_proj", c.num_kv_heads * c.qk_nope_dim, hidden_);
      trunk(mixer + "v_proj", c.num_kv_heads * c.v_head_dim, hidden_);
    } else {
      const std::int64_t key_rows = c.kind == MlaKind::kMqa ? 0 : c.qk_nope_dim;
      trunk(mixer + "kv_a_proj_with_mqa", c.kv_lora_rank + c.qk_rope_dim, hidden_);
      norm(mixer + "kv_a_layernorm", c.kv_lora_rank);
      matrix(mixer + "kv_b_proj", c.num_heads * (key_rows + c.v_head_dim), c.kv_lora_rank);
    }
    gate(mixer, c.output_gate, c.gate_rank, c.value_width());
    trunk(mixer + "o_proj", hidden_, c.value_width());
  }

  // The router stays: its errors choose other experts.
  void moe(const std::string& name) {
    const MoeConfig& c = config_.moe;
    component_ = Component::kMoeFixed;
    matrix(name + "gate", c.num_experts, c.router_reads_latent ? c.latent_size : hidden_);
    add(name + "gate.e_score_correction_bias", DType::kF32, {c.num_experts},
        TensorRole::kRouterBias);
    if (c.latent_size > 0) {
      trunk(name + "routed_expert_down_proj", c.latent_size, hidden_);
      if (c.stable_norm) norm(name + "routed_expert_norm", c.latent_size);
      trunk(name + "routed_expert_up_proj", hidden_, c.latent_size);
    }
    if (c.num_shared_experts > 0) glu(name + "shared_experts.", c.shared_ffn_size());
  }

  void expert(std::int64_t layer_idx, std::int64_t expert_idx) {
    const std::int64_t width = config_.moe.latent_size > 0 ? config_.moe.latent_size : hidden_;
    const std::int64_t inner = config_.moe.expert_ffn_size;
    expert_matrix(names_.expert(layer_idx, expert_idx, "w1"), inner, width);
    expert_matrix(names_.expert(layer_idx, expert_idx, "w2"), width, inner);
    expert_matrix(names_.expert(layer_idx, expert_idx, "w3"), inner, width);
  }

  void expert_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    if (!config_.layout.mxfp4_experts) return matrix(name, rows, cols);
    BALTORO_CHECK(cols % kMxfp4Group == 0, "{}: {} columns", name, cols);
    add(name + ".weight_packed", DType::kU8, {rows, cols / 2}, TensorRole::kPackedCodes);
    add(name + ".weight_scale", DType::kU8, {rows, cols / kMxfp4Group}, TensorRole::kPackedScales);
  }

  const ModelConfig& config_;
  TensorNames names_;
  std::int64_t hidden_;
  Component component_ = Component::kEmbedding;
  std::vector<TensorSpec> tensors_;
};

}  // namespace

const char* component_name(Component component) {
  constexpr const char* kNames[kNumComponents] = {"embedding",      "KDA mixers",
                                                  "MLA mixers",     "norms and residual mixes",
                                                  "dense FFN",      "MoE: router, latent, shared",
                                                  "routed experts", "head",
                                                  "vision tower",   "vision projector"};
  return kNames[static_cast<std::size_t>(component)];
}

std::int64_t TensorSpec::parameters() const {
  if (role == TensorRole::kPackedScales || role == TensorRole::kInt8Scales) return 0;
  return role == TensorRole::kPackedCodes ? 2 * shape.count() : shape.count();
}

std::vector<TensorSpec> embedding_tensors(const ModelConfig& config) {
  Inventory inventory(config);
  inventory.embedding();
  return inventory.take();
}

std::vector<TensorSpec> layer_tensors(const ModelConfig& config, std::int64_t layer_idx,
                                      std::int64_t first_expert, std::int64_t end_expert) {
  Inventory inventory(config);
  inventory.layer(layer_idx, first_expert, end_expert);
  return inventory.take();
}

std::vector<TensorSpec> end_tensors(const ModelConfig& config) {
  Inventory inventory(config);
  inventory.end();
  return inventory.take();
}

std::vector<TensorSpec> vision_tensors(const ModelConfig& config) {
  Inventory inventory(config);
  inventory.vision();
  return inventory.take();
}

void for_each_tensor(const ModelConfig& config,
                     const std::function<void(const TensorSpec&)>& visit) {
  for (const TensorSpec& tensor : embedding_tensors(config)) visit(tensor);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const TensorSpec& tensor : layer_tensors(config, i, 0, config.moe.num_experts)) {
      visit(tensor);
    }
  }
  for (const TensorSpec& tensor : end_tensors(config)) visit(tensor);
  for (const TensorSpec& tensor : vision_tensors(config)) visit(tensor);
}

}  // namespace baltoro
