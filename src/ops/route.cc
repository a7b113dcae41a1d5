#include "ops/route.h"

#include "core/trace.h"
#include "ops/arg_check.h"
#include "ops/linear.h"

namespace baltoro {

void route(Backend& backend, const RouteArgs& args) {
  const ArgCheck check("route", args.layer);
  check.view("x", args.x, args.x.rows(), args.x.cols(), backend.activation_dtype());
  check.weight("weight", args.weight, args.weight.rows, args.x.cols());
  check.pointer("bias", args.bias);
  check.that(args.top_k >= 1 && args.top_k <= args.weight.rows, "top_k in [1, experts]");
  if (args.x.rows() > 0) {
    check.pointer("ids", args.ids);
    check.pointer("weights", args.weights);
  }
  const TraceZone zone("route", args.layer);
  backend.route(args);
}

Cost route_cost(std::int64_t rows, const WeightView& weight, int top_k, DType activation_dtype) {
  Cost cost = linear_cost(rows, weight, activation_dtype);
  const double row_bytes =
      static_cast<double>(weight.cols) * static_cast<double>(dtype_bytes(activation_dtype)) +
      top_k * static_cast<double>(sizeof(std::int32_t) + sizeof(float));
  cost.activation_bytes = static_cast<double>(rows) * row_bytes;
  return cost;
}

}  // namespace baltoro
