// The logits of a mixer's output gate: full rank, low rank or none.
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"

namespace baltoro {

// g x, or g_b(g_a x), or an empty view without a gate.  x [M, D] -> [M, width], in Workspace::gate.
ConstTensorView output_gate(LayerContext& context, const GateWeights& weights,
                            const ConstTensorView& x, std::int64_t width);

}  // namespace baltoro
