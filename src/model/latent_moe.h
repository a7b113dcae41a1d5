// Stable LatentMoE (specification 6.3, 6.4) and the plain mixture of experts of Kimi Linear.
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"

namespace baltoro {

//   z = W_down x (or x);  u = sum_i w_i E_i(z) over the routed experts
//   r = RMSNorm(u), once, on the sum;  out = W_up r + shared(x)
// The router reads x, or z where the configuration says so.  x, out [M, D]
void latent_moe(LayerContext& context, const MoeWeights& weights, const ConstTensorView& x,
                const TensorView& out);

}  // namespace baltoro
