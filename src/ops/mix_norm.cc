#include "ops/mix_norm.h"

#include "core/trace.h"
#include "ops/arg_check.h"

namespace baltoro {

void mix_norm(Backend& backend, const MixNormArgs& args) {
  const ArgCheck check("mix_norm", args.layer);
  const DType dtype = backend.activation_dtype();
  const std::int64_t rows = args.prefix.rows();
  const std::int64_t hidden = args.prefix.cols();
  check.that(hidden > 0, "a hidden size above 0");
  check.view("prefix", args.prefix, rows, hidden, dtype);
  check.view("out", args.out, rows, hidden, dtype);
  check.disjoint("out", args.out, "prefix", args.prefix);
  check.optional_view("delta", args.delta, rows, hidden, dtype);
  check.pointer("norm", args.norm);
  check.that(args.norm_eps >= 0 && args.mix_eps >= 0, "eps >= 0");
  for (const ConstTensorView& source : args.bank) {
    check.view("bank", source, rows, hidden, dtype);
    check.disjoint("out", args.out, "a bank source", source);
    // A banked prefix is raw and final: adding to it in place would corrupt every later mix.
    if (args.delta) check.disjoint("the updated prefix", args.prefix, "a bank source", source);
  }
  if (!args.bank.empty()) {
    check.pointer("res_norm", args.res_norm);
    check.pointer("res_proj", args.res_proj);
  }
  const TraceZone zone("mix_norm", args.layer);
  backend.mix_norm(args);
}

Cost mix_norm_cost(std::int64_t rows, std::int64_t hidden, int num_sources, bool residual_add,
                   DType activation_dtype) {
  const double values = static_cast<double>(rows) * static_cast<double>(hidden);
  const bool mixes = num_sources > 1;
  Cost cost;
  cost.flops = values * (4 + (mixes ? 4.0 * num_sources : 0) + (residual_add ? 1 : 0));
  cost.executed_flops = cost.flops;
  cost.weight_bytes = static_cast<double>(hidden) * (mixes ? 3 : 1) * sizeof(float);
  cost.activation_bytes = values * (num_sources + (residual_add ? 3 : 1)) *
                          static_cast<double>(dtype_bytes(activation_dtype));
  return cost;
}

}  // namespace baltoro
