// The logits of a mixer's output gate: full rank, low rank or none.
#pragma once

#include "core/tensor_view.h"
#include "model/layer_context.h"
#include "model/weights.h"
#include "ops/linear.h"

namespace baltoro {

// g x, or g_b(g_a x), or an empty view without a gate.  x [M, D] -> [M, width], in Workspace::gate.
// `in` holds the mixer's other projections of the same x and has not run yet: g or g_a joins it. The
// view is filled when it has run, and of a pair finish_output_gate after it.
TensorView begin_output_gate(LayerContext& context, const GateWeights& weights, std::int64_t width,
                             LinearArgs& in);
void finish_output_gate(LayerContext& context, const GateWeights& weights, const TensorView& gate);

}  // namespace baltoro
