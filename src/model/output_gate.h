// The logits of a mixer's output gate: full rank, low rank or none.
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"
#include "ops/linear.h"

namespace baltoro {

// g x, or g_b(g_a x), or an empty view without a gate.  x [M, D] -> [M, width], in Workspace::gate.
// `in` holds the mixer's other projections of the same x and has not run yet: a single matrix g
// joins it, so that the view is filled when it runs; a pair runs here.
ConstTensorView output_gate(LayerContext& context, const GateWeights& weights, std::int64_t width,
                            LinearArgs& in);

}  // namespace baltoro
