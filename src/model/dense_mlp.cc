#include "model/dense_mlp.h"

#include "ops/glu_mlp.h"

namespace baltoro {

void dense_mlp(LayerContext& context, const GluWeights& weights, const ConstTensorView& x,
               const TensorView& out) {
  glu_mlp(context.backend, {.layer = context.layer,
                            .x = x,
                            .gate = weights.gate,
                            .up = weights.up,
                            .down = weights.down,
                            .activation = context.config.activation,
                            .add = {},
                            .out = out});
}

}  // namespace baltoro
