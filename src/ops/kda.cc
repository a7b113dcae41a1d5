#include "ops/kda.h"

#include "core/trace.h"
#include "ops/arg_check.h"

namespace baltoro {
namespace {

void check_weights(const ArgCheck& check, const KdaMixArgs& args) {
  check.pointer("q_conv", args.q_conv);
  check.pointer("k_conv", args.k_conv);
  check.pointer("v_conv", args.v_conv);
  check.pointer("a_log", args.a_log);
  check.pointer("dt_bias", args.dt_bias);
  check.pointer("o_norm", args.o_norm);
  check.that(args.norm_eps >= 0, "norm_eps >= 0");
  if (args.gate_lower_bound) {
    check.that(*args.gate_lower_bound >= -5 && *args.gate_lower_bound < 0,
               "gate_lower_bound in [-5, 0)");
  }
}

void check_views(const ArgCheck& check, const KdaMixArgs& args, DType dtype) {
  const KdaShape& shape = args.shape;
  const std::int64_t rows = args.batch.num_rows();
  check.view("q", args.q, rows, shape.key_channels(), dtype);
  check.view("k", args.k, rows, shape.key_channels(), dtype);
  check.view("v", args.v, rows, shape.value_channels(), dtype);
  check.view("decay_logits", args.decay_logits, rows, shape.decay_channels(), dtype);
  check.view("beta_logits", args.beta_logits, rows, shape.num_heads, dtype);
  check.optional_view("gate", args.gate, rows, shape.value_channels(), dtype);
  check.view("out", args.out, rows, shape.value_channels(), dtype);
  for (const ConstTensorView& input :
       {args.q, args.k, args.v, args.decay_logits, args.beta_logits, args.gate}) {
    check.disjoint("out", args.out, "an input", input);
  }
}

}  // namespace

void kda_mix(Backend& backend, const KdaMixArgs& args) {
  const ArgCheck check("kda_mix", args.layer);
  const KdaShape& shape = args.shape;
  check.that(
      shape.num_heads > 0 && shape.head_dim_k > 0 && shape.head_dim_v > 0 && shape.conv_width > 0,
      "heads, head sizes and conv width above 0");
  check.batch(args.batch);
  check_views(check, args, backend.activation_dtype());
  check_weights(check, args);
  check.pointer("state pool", args.pool.state);
  check.that(args.pool.dtype == DType::kF32 || args.pool.dtype == DType::kBf16,
             "a state of f32 or bf16");
  if (shape.conv_elements() > 0) check.pointer("conv pool", args.pool.conv);
  check.slots(args.batch, args.pool.num_slots);
  const TraceZone zone("kda_mix", args.layer);
  backend.kda_mix(args);
}

Cost kda_mix_cost(const KdaShape& shape, std::int64_t rows, std::int64_t sequences,
                  DType activation_dtype, Origin origin, DType state_dtype) {
  const double tokens = static_cast<double>(rows);
  const double heads = static_cast<double>(shape.num_heads);
  const double dk = static_cast<double>(shape.head_dim_k);
  const double dv = static_cast<double>(shape.head_dim_v);
  const double block = static_cast<double>(kBlockTokens);
  const double channels = static_cast<double>(shape.conv_channels());
  const double width = static_cast<double>(shape.conv_width);
  const double values = channels +                                     // q, k, v
                        static_cast<double>(shape.decay_channels()) +  // decay logits
                        heads +                                        // beta logits
                        2 * heads * dv;                                // gate, out
  const double conv_flops = tokens * 2 * width * channels;
  Cost cost;
  cost.flops = tokens * 7 * heads * dk * dv + conv_flops;
  cost.executed_flops = cost.flops;
  if (origin == Origin::kPrompt) {
    cost.executed_flops =
        tokens * heads * (6 * dk * dv + block * (2 * dk + dv) + block * block) + conv_flops;
  }
  cost.weight_bytes =
      sizeof(float) * (width * channels + heads + static_cast<double>(shape.decay_channels()) + dv);
  cost.activation_bytes = tokens * values * static_cast<double>(dtype_bytes(activation_dtype));
  cost.state_bytes =
      static_cast<double>(sequences) * 2 *
      (static_cast<double>(dtype_bytes(state_dtype)) * static_cast<double>(shape.state_elements()) +
       sizeof(float) * static_cast<double>(shape.conv_elements()));
  cost.updated_bytes = cost.state_bytes;
  return cost;
}

}  // namespace baltoro
