#include "ops/glu_mlp.h"

#include "core/trace.h"
#include "ops/arg_check.h"
#include "ops/linear.h"

namespace baltoro {

void glu_mlp(Backend& backend, const GluMlpArgs& args) {
  const ArgCheck check("glu_mlp", args.layer);
  const DType dtype = backend.activation_dtype();
  const std::int64_t rows = args.x.rows();
  check.view("x", args.x, rows, args.x.cols(), dtype);
  check.weight("gate", args.gate, args.gate.rows, args.x.cols());
  check.weight("up", args.up, args.gate.rows, args.x.cols());
  check.weight("down", args.down, args.down.rows, args.gate.rows);
  check.view("out", args.out, rows, args.down.rows, dtype);
  check.disjoint("out", args.out, "x", args.x);
  check.optional_view("add", args.add, rows, args.down.rows, dtype);
  check.that(args.activation.kind != ActivationKind::kSitu ||
                 (args.activation.beta > 0 && args.activation.linear_beta > 0),
             "SiTU betas above 0");
  const TraceZone zone("glu_mlp", args.layer);
  backend.glu_mlp(args);
}

Cost glu_mlp_cost(std::int64_t rows, const WeightView& gate, const WeightView& up,
                  const WeightView& down, DType activation_dtype) {
  Cost cost = linear_cost(rows, gate, activation_dtype);
  cost += linear_cost(rows, up, activation_dtype);
  cost += linear_cost(rows, down, activation_dtype);
  cost.activation_bytes = static_cast<double>(rows) * static_cast<double>(gate.cols + down.rows) *
                          static_cast<double>(dtype_bytes(activation_dtype));
  return cost;
}

}  // namespace baltoro
