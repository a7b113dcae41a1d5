// A gated MLA layer around its core op (specification 4), and its variants: native MQA and GQA
// (docs/config.md).
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"

namespace baltoro {

// out = o_proj(attention(q x, kv_a x) * sigmoid(gate x)).  x, out [M, D]; the batch's pages receive
// the new cache rows.
void gated_mla_layer(LayerContext& context, const MlaWeights& weights, const ConstTensorView& x,
                     const TensorView& out);

}  // namespace baltoro
