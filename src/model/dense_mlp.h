// The dense FFN of the first layers.
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"

namespace baltoro {

// out = W_down act(W_gate x, W_up x).  x, out [M, D]
void dense_mlp(LayerContext& context, const GluWeights& weights, const ConstTensorView& x,
               const TensorView& out);

}  // namespace baltoro
