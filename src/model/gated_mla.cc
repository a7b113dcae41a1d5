#include "model/gated_mla.h"

#include "model/output_gate.h"
#include "model/rms_norm.h"
#include "ops/linear.h"
#include "ops/mla.h"

namespace baltoro {
namespace {

// Queries, latents or keys and values, and the gate, of x into the workspace and `args`.
void project(LayerContext& context, const MlaWeights& weights, const ConstTensorView& x,
             MlaArgs& args) {
  const MlaConfig& mla = context.config.mla;
  Workspace& ws = context.workspace;
  const std::int64_t rows = x.rows();
  const TensorView q = ws.q.view(rows, mla.num_heads * mla.qk_dim());
  const TensorView q_latent = ws.low_rank.view(rows, mla.q_lora_rank);

  LinearArgs in{.layer = context.layer, .x = x};
  if (mla.q_lora_rank > 0) {
    in.add(weights.q_a_proj, q_latent);
  } else {
    in.add(weights.q_proj, q);
  }
  if (mla.kind == MlaKind::kGqa) {
    const TensorView k = ws.k.view(rows, mla.num_kv_heads * mla.qk_nope_dim);
    const TensorView v = ws.v.view(rows, mla.num_kv_heads * mla.v_head_dim);
    in.add(weights.k_proj, k);
    in.add(weights.v_proj, v);
    args.kv = k;
    args.v = v;
  } else {
    const TensorView kv = ws.k.view(rows, mla.kv_lora_rank + mla.qk_rope_dim);
    in.add(weights.kv_a_proj, kv);
    args.kv = kv;
  }
  const TensorView gate = begin_output_gate(context, weights.gate, mla.value_width(), in);
  linear(context.backend, in);
  finish_output_gate(context, weights.gate, gate);
  args.gate = gate;

  if (mla.q_lora_rank > 0) {
    const TensorView q_normed = ws.low_rank_normed.view(rows, mla.q_lora_rank);
    rms_norm(context, q_latent, weights.q_a_norm, context.config.latent_norm_eps, q_normed);
    LinearArgs up{.layer = context.layer, .x = q_normed};
    up.add(weights.q_b_proj, q);
    linear(context.backend, up);
  }
  args.q = q;
}

}  // namespace

void gated_mla_layer(LayerContext& context, const MlaWeights& weights, const ConstTensorView& x,
                     const TensorView& out) {
  const MlaConfig& mla = context.config.mla;
  MlaArgs args;
  args.layer = context.layer;
  args.shape = mla_shape(mla);
  args.batch = context.batch;
  project(context, weights, x, args);
  args.kv_norm = weights.kv_a_norm.data();
  args.kv_norm_eps = context.config.latent_norm_eps;
  args.kv_b = weights.kv_b_proj;
  args.rope_theta = mla.rope_theta;
  args.cache = context.state.mla(context.layer);
  args.out = context.workspace.mixed.view(x.rows(), mla.value_width());
  mla_prefill(context.backend, args);
  mla_decode(context.backend, args);

  LinearArgs output{.layer = context.layer, .x = args.out};
  output.add(weights.o_proj, out);
  linear(context.backend, output);
}

}  // namespace baltoro
