// A Kimi Delta Attention layer around its core op (specification 3; K3 report, section on KDA).
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"

namespace baltoro {

// out = o_proj(kda_mix(q x, k x, v x, f_b f_a x, b x, gate x)).  x, out [M, D]; the batch's state
// slots are updated.
void kda_layer(LayerContext& context, const KdaWeights& weights, const ConstTensorView& x,
               const TensorView& out);

}  // namespace baltoro
