#include "model/output_gate.h"

namespace baltoro {

TensorView begin_output_gate(LayerContext& context, const GateWeights& weights, std::int64_t width,
                             LinearArgs& in) {
  if (!weights.full && !weights.b) return {};
  const std::int64_t rows = in.x.rows();
  const TensorView gate = context.workspace.gate.view(rows, width);
  if (weights.full) {
    in.add(weights.full, gate);
  } else {
    in.add(weights.a, context.workspace.gate_low_rank.view(rows, weights.a.rows));
  }
  return gate;
}

void finish_output_gate(LayerContext& context, const GateWeights& weights, const TensorView& gate) {
  if (!weights.b) return;
  LinearArgs args{.layer = context.layer,
                  .x = context.workspace.gate_low_rank.view(gate.rows(), weights.b.cols)};
  args.add(weights.b, gate);
  linear(context.backend, args);
}

}  // namespace baltoro
