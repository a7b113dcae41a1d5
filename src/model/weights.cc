#include "model/weights.h"

namespace baltoro {
namespace {

using VisitVector = std::function<void(WeightVector&)>;

// One text for constant and changing visits: Visit takes a WeightView reference of its kind.
template <typename Glu, typename Visit>
void visit_glu(Glu& w, const Visit& visit) {
  for (auto* view : {&w.gate, &w.up, &w.down}) visit(*view);
}

template <typename Gate, typename Visit>
void visit_gate(Gate& w, const Visit& visit) {
  for (auto* view : {&w.full, &w.a, &w.b}) visit(*view);
}

template <typename Layer, typename Visit>
void visit_matrices(Layer& layer, const Visit& visit) {
  const auto visit_all = [&](auto... views) { (visit(*views), ...); };
  if (auto* kda = std::get_if<KdaWeights>(&layer.mixer)) {
    visit_all(&kda->q_proj, &kda->k_proj, &kda->v_proj, &kda->f_a_proj, &kda->f_b_proj);
    visit_all(&kda->b_proj, &kda->o_proj);
    visit_gate(kda->gate, visit);
  } else if (auto* mla = std::get_if<MlaWeights>(&layer.mixer)) {
    visit_all(&mla->q_proj, &mla->q_a_proj, &mla->q_b_proj, &mla->kv_a_proj, &mla->kv_b_proj);
    visit_all(&mla->k_proj, &mla->v_proj, &mla->o_proj);
    visit_gate(mla->gate, visit);
  }
  if (auto* mlp = std::get_if<GluWeights>(&layer.ffn)) {
    visit_glu(*mlp, visit);
  } else if (auto* moe = std::get_if<MoeWeights>(&layer.ffn)) {
    visit_all(&moe->router, &moe->latent_down, &moe->latent_up);
    if (moe->shared) visit_glu(*moe->shared, visit);
  }
}

void visit_vectors(KdaWeights& w, const VisitVector& visit) {
  for (auto* v : {&w.q_conv, &w.k_conv, &w.v_conv, &w.a_log, &w.dt_bias, &w.o_norm}) visit(*v);
}

void visit_vectors(MlaWeights& w, const VisitVector& visit) {
  for (auto* v : {&w.q_a_norm, &w.kv_a_norm}) visit(*v);
}

}  // namespace

void for_each_trunk_matrix(const LayerWeights& layer,
                           const std::function<void(const WeightView&)>& visit) {
  visit_matrices(layer, visit);
}

void for_each_trunk_matrix(LayerWeights& layer, const std::function<void(WeightView&)>& visit) {
  visit_matrices(layer, visit);
}

void for_each_vector(LayerWeights& layer, const VisitVector& visit) {
  visit(layer.input_norm);
  visit(layer.post_norm);
  std::visit([&](auto& mixer) { visit_vectors(mixer, visit); }, layer.mixer);
  if (auto* moe = std::get_if<MoeWeights>(&layer.ffn)) {
    visit(moe->router_bias);
    visit(moe->latent_norm);
  }
  for (auto* mix : {&layer.attn_res_mixer, &layer.attn_res_ffn}) {
    if (!*mix) continue;
    visit((*mix)->norm);
    visit((*mix)->proj);
  }
}

}  // namespace baltoro
