// Shapes of the released models (docs/cost-model.md) and of K3 without each of its ideas.
#include <array>

#include "plan/key_value.h"
#include "plan/model.h"

namespace baltoro::plan {
namespace {

// Every `every`-th layer is attention, and the last one; the first `dense` layers have a dense FFN.
std::vector<LayerSpec> hybrid_layers(std::int64_t count, std::int64_t every, std::int64_t dense) {
  std::vector<LayerSpec> layers;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool attention = (i + 1) % every == 0 || i + 1 == count;
    layers.push_back({attention ? MixerKind::kMla : MixerKind::kKda,
                      i < dense ? FfnKind::kDense : FfnKind::kMoe});
  }
  return layers;
}

void set_layers(ModelConfig& config, std::vector<LayerSpec> layers) {
  config.num_layers = static_cast<std::int64_t>(layers.size());
  config.layers = std::move(layers);
}

KdaConfig kda_of(std::int64_t heads, OutputGate gate) {
  KdaConfig kda;
  kda.num_heads = heads;
  kda.head_dim_k = kda.head_dim_v = kda.decay_rank = 128;
  kda.conv_width = 4;
  kda.output_gate = gate;
  kda.gate_rank = gate == OutputGate::kLowRank ? 128 : 0;
  return kda;
}

MlaConfig mla_of(std::int64_t heads, std::int64_t q_rank) {
  MlaConfig mla;
  mla.num_heads = mla.num_kv_heads = heads;
  mla.qk_nope_dim = mla.v_head_dim = 128;
  mla.qk_rope_dim = 64;
  mla.q_lora_rank = q_rank;
  mla.kv_lora_rank = 512;
  return mla;
}

MoeConfig moe_of(std::int64_t experts, std::int64_t active, std::int64_t width,
                 std::int64_t shared) {
  MoeConfig moe;
  moe.num_experts = experts;
  moe.experts_per_token = active;
  moe.expert_ffn_size = width;
  moe.num_shared_experts = shared;
  moe.renormalize = true;
  moe.routed_scaling_factor = 1;
  return moe;
}

PlanModel k3() {
  PlanModel model{.name = "k3", .config = {}, .formats = {}, .not_in_engine = {}};
  ModelConfig& config = model.config;
  config.vocab_size = 163840;
  config.hidden_size = 7168;
  config.intermediate_size = 33792;
  config.rms_norm_eps = 1e-5f;
  set_layers(config, hybrid_layers(93, 4, 1));
  config.kda = kda_of(96, OutputGate::kFull);
  config.kda.gate_lower_bound = -5.0f;
  config.mla = mla_of(96, 1536);
  config.mla.output_gate = OutputGate::kFull;
  config.moe = moe_of(896, 16, 3072, 2);
  config.moe.latent_size = 3584;
  config.moe.stable_norm = true;
  config.activation = {ActivationKind::kSitu, 4.0f, 25.0f};
  config.attn_res_sublayers = 24;
  config.layout = {.nested = true, .mxfp4_experts = true};
  model.formats.routed = Format::kMxfp4;
  return model;
}

PlanModel kimi_linear() {
  PlanModel model{.name = "kimi-linear", .config = {}, .formats = {}, .not_in_engine = {}};
  ModelConfig& config = model.config;
  config.vocab_size = 163840;
  config.hidden_size = 2304;
  config.intermediate_size = 9216;
  config.rms_norm_eps = 1e-5f;
  set_layers(config, hybrid_layers(27, 4, 1));
  config.kda = kda_of(32, OutputGate::kLowRank);
  config.mla = mla_of(32, 0);
  config.moe = moe_of(256, 8, 1024, 1);
  config.moe.routed_scaling_factor = 2.446f;
  config.activation.kind = ActivationKind::kSwiglu;
  model.formats.kv = Format::kBf16;
  return model;
}

// Multi-head latent attention with rotation everywhere: DeepSeek-V3 and K2.
PlanModel rotated_mla(std::string name, std::int64_t heads, MoeConfig moe, std::int64_t dense) {
  PlanModel model{.name = std::move(name), .config = {}, .formats = {}, .not_in_engine = {}};
  ModelConfig& config = model.config;
  config.hidden_size = 7168;
  config.intermediate_size = 18432;
  config.rms_norm_eps = 1e-6f;
  set_layers(config, hybrid_layers(61, 1, dense));
  config.mla = mla_of(heads, 1536);
  config.mla.rope_theta = 10000.0f;
  config.moe = moe;
  config.activation.kind = ActivationKind::kSwiglu;
  model.formats.kv = Format::kBf16;
  model.not_in_engine = {"scaled rotation (YaRN) of the side branch; costed as the op without it"};
  return model;
}

PlanModel k2(std::string name, Format routed) {
  PlanModel model = rotated_mla(std::move(name), 64, moe_of(384, 8, 2048, 1), 1);
  model.config.vocab_size = 163840;
  model.formats.routed = routed;
  return model;
}

PlanModel dsv3() {
  PlanModel model = rotated_mla("dsv3", 128, moe_of(256, 8, 2048, 1), 3);
  model.config.vocab_size = 129280;
  apply_formats(model.formats, "routed=fp8,attn=fp8,shared=fp8,dense=fp8");
  return model;
}

PlanModel gqa_70b() {
  PlanModel model{.name = "gqa-70b", .config = {}, .formats = {}, .not_in_engine = {}};
  ModelConfig& config = model.config;
  config.vocab_size = 128256;
  config.hidden_size = 8192;
  config.intermediate_size = 28672;
  config.rms_norm_eps = 1e-5f;
  set_layers(config, hybrid_layers(80, 1, 80));
  config.mla.kind = MlaKind::kGqa;
  config.mla.num_heads = 64;
  config.mla.num_kv_heads = 8;
  config.mla.qk_nope_dim = config.mla.v_head_dim = 128;
  config.activation.kind = ActivationKind::kSwiglu;
  model.formats.kv = Format::kBf16;
  model.not_in_engine = {"rotation of GQA keys; costed as the op without it"};
  return model;
}

PlanModel k3_without_kda() {
  PlanModel model = k3();
  set_layers(model.config, hybrid_layers(93, 1, 1));
  model.config.kda = {};
  return model;
}

PlanModel k3_without_mla() {
  PlanModel model = k3();
  for (LayerSpec& layer : model.config.layers) layer.mixer = MixerKind::kKda;
  model.config.mla = {};
  return model;
}

// At the same routed parameters and the same work a token: N l and K l are kept.
PlanModel k3_without_latent() {
  PlanModel model = k3();
  model.config.moe.latent_size = 0;
  model.config.moe.stable_norm = false;
  model.config.moe.num_experts = 448;
  model.config.moe.experts_per_token = 8;
  return model;
}

PlanModel k3_without_attn_res() {
  PlanModel model = k3();
  model.config.attn_res_sublayers = 0;
  return model;
}

PlanModel k3_without_gates() {
  PlanModel model = k3();
  model.config.kda.output_gate = model.config.mla.output_gate = OutputGate::kNone;
  return model;
}

PlanModel k3_without_side_branch() {
  PlanModel model = k3();
  model.config.mla.qk_rope_dim = 0;
  return model;
}

PlanModel k3_without_shared() {
  PlanModel model = k3();
  model.config.moe.num_shared_experts = 0;
  return model;
}

PlanModel k3_without_mxfp4() {
  PlanModel model = k3();
  model.formats.routed = Format::kBf16;
  model.config.layout.mxfp4_experts = false;
  return model;
}

struct Preset {
  const char* name;
  const char* note;
  PlanModel (*make)();
};

constexpr std::array<Preset, 14> kPresets = {{
    {"k3", "Kimi K3, MXFP4 experts", k3},
    {"k2", "Kimi K2, FP8 experts", [] { return k2("k2", Format::kFp8); }},
    {"k2.5", "Kimi K2.5, INT4 experts", [] { return k2("k2.5", Format::kInt4); }},
    {"kimi-linear", "Kimi Linear 48B-A3B, BF16", kimi_linear},
    {"dsv3", "DeepSeek-V3, FP8", dsv3},
    {"gqa-70b", "dense 70B with grouped-query attention, BF16", gqa_70b},
    {"k3-no-kda", "K3 with MLA in all layers", k3_without_kda},
    {"k3-no-mla", "K3 with KDA in all layers", k3_without_mla},
    {"k3-no-latent", "K3 with full-width experts: 8 of 448", k3_without_latent},
    {"k3-no-attnres", "K3 with a plain residual", k3_without_attn_res},
    {"k3-no-gates", "K3 without output gates", k3_without_gates},
    {"k3-no-side", "K3 without the 64-wide side branch of MLA", k3_without_side_branch},
    {"k3-no-shared", "K3 without shared experts", k3_without_shared},
    {"k3-no-mxfp4", "K3 with BF16 experts", k3_without_mxfp4},
}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::string preset_note(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset.note;
  }
  return {};
}

PlanModel preset_model(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    PlanModel model = preset.make();
    model.name = name;
    return model;
  }
  fail_unknown("", name, "model preset", preset_names());
}

}  // namespace baltoro::plan
