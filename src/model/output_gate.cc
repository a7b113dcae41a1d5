#include "model/output_gate.h"

namespace baltoro {

ConstTensorView output_gate(LayerContext& context, const GateWeights& weights, std::int64_t width,
                            LinearArgs& in) {
  if (!weights.full && !weights.b) return {};
  const std::int64_t rows = in.x.rows();
  const TensorView gate = context.workspace.gate.view(rows, width);
  if (weights.full) {
    in.add(weights.full, gate);
    return gate;
  }
  const TensorView low_rank = context.workspace.low_rank.view(rows, weights.a.rows);
  LinearArgs first{.layer = context.layer, .x = in.x};
  first.add(weights.a, low_rank);
  linear(context.backend, first);
  LinearArgs last{.layer = context.layer, .x = low_rank};
  last.add(weights.b, gate);
  linear(context.backend, last);
  return gate;
}

}  // namespace baltoro
