// One decoder layer: mixer sub-layer, then FFN sub-layer, each fed from the residual stream.
#pragma once

#include "model/layer_context.h"
#include "model/residual_stream.h"
#include "model/weights.h"

namespace baltoro {

void run_block(LayerContext& context, const LayerWeights& weights, ResidualStream& stream);

}  // namespace baltoro
