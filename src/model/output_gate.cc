#include "model/output_gate.h"

#include "ops/linear.h"

namespace baltoro {

ConstTensorView output_gate(LayerContext& context, const GateWeights& weights,
                            const ConstTensorView& x, std::int64_t width) {
  if (!weights.full && !weights.b) return {};
  const TensorView gate = context.workspace.gate.view(x.rows(), width);
  LinearArgs last{.layer = context.layer, .x = x};
  if (weights.full) {
    last.add(weights.full, gate);
  } else {
    LinearArgs first{.layer = context.layer, .x = x};
    const TensorView low_rank = context.workspace.low_rank.view(x.rows(), weights.a.rows);
    first.add(weights.a, low_rank);
    linear(context.backend, first);
    last.x = low_rank;
    last.add(weights.b, gate);
  }
  linear(context.backend, last);
  return gate;
}

}  // namespace baltoro
