#include "ops/head.h"

#include "core/error.h"
#include "core/trace.h"
#include "ops/arg_check.h"
#include "ops/linear.h"

namespace baltoro {

void head(Backend& backend, const HeadArgs& args) {
  const ArgCheck check("head", -1);
  check.view("x", args.x, args.x.rows(), args.x.cols(), backend.activation_dtype());
  check.weight("weight", args.weight, args.weight.rows, args.x.cols());
  for (const std::int32_t row : args.rows) {
    BALTORO_CHECK(row >= 0 && row < args.x.rows(), "head: row {} of a batch of {}", row,
                  args.x.rows());
  }
  if (!args.rows.empty()) check.pointer("logits", args.logits);
  const TraceZone zone("head", -1);
  backend.head(args);
}

Cost head_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype) {
  Cost cost = linear_cost(rows, weight, activation_dtype);
  const double row_bytes =
      static_cast<double>(weight.cols) * static_cast<double>(dtype_bytes(activation_dtype)) +
      static_cast<double>(weight.rows) * static_cast<double>(sizeof(float));
  cost.activation_bytes = static_cast<double>(rows) * row_bytes;
  return cost;
}

}  // namespace baltoro
