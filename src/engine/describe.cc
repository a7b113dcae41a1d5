#include "engine/describe.h"

#include <initializer_list>
#include <variant>

namespace baltoro {
namespace {

struct Tally {
  std::int64_t params = 0;
  std::int64_t bytes = 0;

  void add(const WeightView& view) {
    params += view.rows * view.cols;
    bytes += view.bytes();
  }
  void add(std::initializer_list<WeightView> views) {
    for (const WeightView& view : views) add(view);
  }
  // Vectors are f32 copies in memory, whatever the file holds.
  void add(const WeightVector& vector) {
    params += static_cast<std::int64_t>(vector.size());
    bytes += static_cast<std::int64_t>(vector.size() * sizeof(float));
  }
  void add(const Tally& other) {
    params += other.params;
    bytes += other.bytes;
  }
};

Tally tally(const GluWeights& w) {
  Tally t;
  t.add({w.gate, w.up, w.down});
  return t;
}

Tally tally(const AttnResWeights& w) {
  Tally t;
  t.add(w.norm);
  t.add(w.proj);
  return t;
}

Tally tally(const KdaWeights& w) {
  Tally t;
  t.add({w.q_proj, w.k_proj, w.v_proj, w.f_a_proj, w.f_b_proj, w.b_proj, w.o_proj});
  t.add({w.gate.full, w.gate.a, w.gate.b});
  for (const auto* v : {&w.q_conv, &w.k_conv, &w.v_conv, &w.a_log, &w.dt_bias, &w.o_norm})
    t.add(*v);
  return t;
}

Tally tally(const MlaWeights& w) {
  Tally t;
  t.add({w.q_proj, w.q_a_proj, w.q_b_proj, w.kv_a_proj, w.kv_b_proj, w.k_proj, w.v_proj, w.o_proj});
  t.add({w.gate.full, w.gate.a, w.gate.b});
  t.add(w.q_a_norm);
  t.add(w.kv_a_norm);
  return t;
}

// What every token reads of a MoE layer, without the routed experts.
Tally tally_fixed(const MoeWeights& w) {
  Tally t;
  t.add({w.router, w.latent_down, w.latent_up});
  t.add(w.router_bias);
  t.add(w.latent_norm);
  if (w.shared) t.add(tally(*w.shared));
  return t;
}

Tally tally_experts(const MoeWeights& w) {
  Tally t;
  for (const ExpertWeights& expert : w.experts) t.add({expert.w1, expert.w3, expert.w2});
  return t;
}

// The share of `all` that A of E experts are.
Tally share(const Tally& all, std::int64_t chosen, std::int64_t num_experts) {
  return {all.params / num_experts * chosen, all.bytes / num_experts * chosen};
}

}  // namespace

EngineInfo describe(const Model& model, const Backend& backend, const SequenceState& state,
                    const MemoryPlan& plan) {
  const ModelConfig& config = model.config();
  const ModelWeights& weights = model.weights();
  Tally embedding, always, routed, chosen;
  if (!config.tie_word_embeddings) embedding.add(weights.embed);  // else the head counts it
  always.add(weights.final_norm);
  always.add(weights.lm_head);
  if (weights.output_attn_res) always.add(tally(*weights.output_attn_res));
  for (const LayerWeights& layer : weights.layers) {
    always.add(layer.input_norm);
    always.add(layer.post_norm);
    if (layer.attn_res_mixer) always.add(tally(*layer.attn_res_mixer));
    if (layer.attn_res_ffn) always.add(tally(*layer.attn_res_ffn));
    std::visit([&](const auto& mixer) { always.add(tally(mixer)); }, layer.mixer);
    if (const auto* dense = std::get_if<GluWeights>(&layer.ffn)) {
      always.add(tally(*dense));
      continue;
    }
    const auto& moe = std::get<MoeWeights>(layer.ffn);
    const Tally experts = tally_experts(moe);
    always.add(tally_fixed(moe));
    routed.add(experts);
    chosen.add(share(experts, config.moe.experts_per_token, config.moe.num_experts));
  }

  EngineInfo info;
  info.backend = backend.name();
  info.num_threads = backend.num_threads();
  info.vocab_size = config.vocab_size;
  info.num_layers = config.num_layers;
  info.max_positions = config.max_positions;
  info.total_params = embedding.params + always.params + routed.params;
  info.active_params = always.params + chosen.params;
  info.weight_bytes = embedding.bytes + always.bytes + routed.bytes;
  info.decode_weight_bytes = always.bytes + chosen.bytes;
  info.cache_bytes_per_token = static_cast<std::int64_t>(state.page_bytes()) / kBlockTokens;
  info.state_bytes = static_cast<std::int64_t>(state.slot_bytes());
  info.memory = plan;
  const StateBytes on_host = state.bytes_of(0, static_cast<std::size_t>(plan.host_layers));
  info.host_cache_bytes_per_token = static_cast<std::int64_t>(on_host.page) / kBlockTokens;
  info.host_state_bytes = static_cast<std::int64_t>(on_host.slot);
  return info;
}

}  // namespace baltoro
