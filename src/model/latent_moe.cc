#include "model/latent_moe.h"

#include "model/rms_norm.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/linear.h"
#include "ops/route.h"

namespace baltoro {
namespace {

void linear1(LayerContext& context, const WeightView& weight, const ConstTensorView& x,
             const TensorView& out) {
  LinearArgs args{.layer = context.layer, .x = x};
  args.add(weight, out);
  linear(context.backend, args);
}

void choose_experts(LayerContext& context, const MoeWeights& weights, const ConstTensorView& x) {
  const MoeConfig& moe = context.config.moe;
  route(context.backend, {.layer = context.layer,
                          .x = x,
                          .weight = weights.router,
                          .bias = weights.router_bias.data(),
                          .top_k = static_cast<int>(moe.experts_per_token),
                          .renormalize = moe.renormalize,
                          .scale = moe.routed_scaling_factor,
                          .ids = context.workspace.expert_ids.i32(),
                          .weights = context.workspace.expert_weights.f32()});
}

// The routed part in the model space: `out` for a model without shared experts, else scratch.
void routed_experts(LayerContext& context, const MoeWeights& weights, const ConstTensorView& x,
                    const TensorView& out) {
  const MoeConfig& moe = context.config.moe;
  Workspace& ws = context.workspace;
  const bool has_latent = moe.latent_size > 0;
  ConstTensorView z = x;
  if (has_latent) {
    const TensorView latent = ws.latent.view(x.rows(), moe.latent_size);
    linear1(context, weights.latent_down, x, latent);
    z = latent;
  }
  choose_experts(context, weights, moe.router_reads_latent ? z : x);

  const TensorView sum = has_latent ? ws.expert_sum.view(x.rows(), moe.latent_size) : out;
  expert_mlp(context.backend, {.layer = context.layer,
                               .z = z,
                               .ids = ws.expert_ids.i32(),
                               .weights = ws.expert_weights.f32(),
                               .top_k = static_cast<int>(moe.experts_per_token),
                               .experts = weights.experts,
                               .table = weights.expert_table,
                               .feed = context.mapped,
                               .activation = context.config.activation,
                               .expert_activations = context.expert_activations,
                               .out = sum});
  if (!has_latent) return;

  ConstTensorView r = sum;
  if (moe.stable_norm) {
    const TensorView normed = ws.expert_sum_normed.view(x.rows(), moe.latent_size);
    rms_norm(context, sum, weights.latent_norm, context.config.rms_norm_eps, normed);
    r = normed;
  }
  linear1(context, weights.latent_up, r, out);
}

}  // namespace

void latent_moe(LayerContext& context, const MoeWeights& weights, const ConstTensorView& x,
                const TensorView& out) {
  if (!weights.shared) {
    routed_experts(context, weights, x, out);
    return;
  }
  const TensorView routed = context.workspace.routed.view(x.rows(), context.config.hidden_size);
  routed_experts(context, weights, x, routed);
  glu_mlp(context.backend, {.layer = context.layer,
                            .x = x,
                            .gate = weights.shared->gate,
                            .up = weights.shared->up,
                            .down = weights.shared->down,
                            .activation = context.config.activation,
                            .add = routed,
                            .out = out});
}

}  // namespace baltoro
