#include "ops/linear.h"

#include "core/trace.h"
#include "ops/arg_check.h"

namespace baltoro {

void linear(Backend& backend, const LinearArgs& args) {
  const ArgCheck check("linear", args.layer);
  const DType dtype = backend.activation_dtype();
  const std::int64_t rows = args.x.rows();
  const std::int64_t cols = args.x.cols();
  check.that(args.num_outputs >= 1 && args.num_outputs <= LinearArgs::kMaxOutputs,
             "1 to 8 outputs");
  check.view("x", args.x, rows, cols, dtype);
  for (int i = 0; i < args.num_outputs; ++i) {
    const LinearOutput& output = args.outputs[static_cast<std::size_t>(i)];
    check.weight("weight", output.weight, output.weight.rows, cols);
    check.view("out", output.out, rows, output.weight.rows, dtype);
    check.disjoint("out", output.out, "x", args.x);
    for (int j = 0; j < i; ++j) {
      check.disjoint("out", output.out, "another out",
                     args.outputs[static_cast<std::size_t>(j)].out);
    }
  }
  const TraceZone zone("linear", args.layer);
  backend.linear(args);
}

Cost linear_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype) {
  const double m = static_cast<double>(rows);
  const double n = static_cast<double>(weight.rows);
  const double k = static_cast<double>(weight.cols);
  Cost cost;
  cost.flops = 2 * m * n * k;
  cost.executed_flops = cost.flops;
  cost.weight_bytes = static_cast<double>(weight.bytes());
  cost.activation_bytes = m * (n + k) * static_cast<double>(dtype_bytes(activation_dtype));
  return cost;
}

}  // namespace baltoro
