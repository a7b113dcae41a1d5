#include "model/kda.h"

#include "model/output_gate.h"
#include "ops/kda.h"
#include "ops/linear.h"

namespace baltoro {

void kda_layer(LayerContext& context, const KdaWeights& weights, const ConstTensorView& x,
               const TensorView& out) {
  const KdaConfig& kda = context.config.kda;
  Workspace& ws = context.workspace;
  const std::int64_t rows = x.rows();

  KdaMixArgs mix;
  mix.layer = context.layer;
  mix.shape = kda_shape(kda);
  mix.batch = context.batch;
  const TensorView q = ws.q.view(rows, kda.key_width());
  const TensorView k = ws.k.view(rows, kda.key_width());
  const TensorView v = ws.v.view(rows, kda.value_width());
  const TensorView beta = ws.beta.view(rows, kda.num_heads);
  const TensorView decay_low_rank = ws.low_rank.view(rows, kda.decay_rank);
  const TensorView decay = ws.decay.view(rows, kda.decay_width());

  LinearArgs in{.layer = context.layer, .x = x};
  in.add(weights.q_proj, q);
  in.add(weights.k_proj, k);
  in.add(weights.v_proj, v);
  in.add(weights.b_proj, beta);
  in.add(weights.f_a_proj, decay_low_rank);
  const TensorView gate = begin_output_gate(context, weights.gate, kda.value_width(), in);
  linear(context.backend, in);
  finish_output_gate(context, weights.gate, gate);

  LinearArgs decay_up{.layer = context.layer, .x = decay_low_rank};
  decay_up.add(weights.f_b_proj, decay);
  linear(context.backend, decay_up);

  mix.q = q;
  mix.k = k;
  mix.v = v;
  mix.decay_logits = decay;
  mix.beta_logits = beta;
  mix.gate = gate;
  mix.q_conv = weights.q_conv.data();
  mix.k_conv = weights.k_conv.data();
  mix.v_conv = weights.v_conv.data();
  mix.a_log = weights.a_log.data();
  mix.dt_bias = weights.dt_bias.data();
  mix.o_norm = weights.o_norm.data();
  mix.gate_lower_bound = kda.gate_lower_bound;
  mix.norm_eps = context.config.rms_norm_eps;
  mix.pool = context.state.kda(context.layer);
  mix.out = ws.mixed.view(rows, kda.value_width());
  kda_mix(context.backend, mix);

  LinearArgs output{.layer = context.layer, .x = mix.out};
  output.add(weights.o_proj, out);
  linear(context.backend, output);
}

}  // namespace baltoro
