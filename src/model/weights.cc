#include "model/weights.h"

namespace baltoro {
namespace {

using Visit = std::function<void(const WeightView&)>;

void visit_all(std::initializer_list<WeightView> views, const Visit& visit) {
  for (const WeightView& view : views) visit(view);
}

void visit_matrices(const GluWeights& w, const Visit& visit) {
  visit_all({w.gate, w.up, w.down}, visit);
}

void visit_matrices(const KdaWeights& w, const Visit& visit) {
  visit_all({w.q_proj, w.k_proj, w.v_proj, w.f_a_proj, w.f_b_proj, w.b_proj, w.o_proj}, visit);
  visit_all({w.gate.full, w.gate.a, w.gate.b}, visit);
}

void visit_matrices(const MlaWeights& w, const Visit& visit) {
  visit_all({w.q_proj, w.q_a_proj, w.q_b_proj, w.kv_a_proj, w.kv_b_proj, w.k_proj, w.v_proj},
            visit);
  visit_all({w.gate.full, w.gate.a, w.gate.b, w.o_proj}, visit);
}

void visit_matrices(const MoeWeights& w, const Visit& visit) {
  visit_all({w.router, w.latent_down, w.latent_up}, visit);
  if (w.shared) visit_matrices(*w.shared, visit);
}

}  // namespace

void for_each_trunk_matrix(const LayerWeights& layer, const Visit& visit) {
  std::visit([&](const auto& mixer) { visit_matrices(mixer, visit); }, layer.mixer);
  std::visit([&](const auto& ffn) { visit_matrices(ffn, visit); }, layer.ffn);
}

}  // namespace baltoro
