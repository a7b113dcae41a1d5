#include "cpu/kda_head.h"

#include <algorithm>
#include <cmath>

namespace baltoro::cpu {

void kda_decays(const Context& context, const KdaMixArgs& args, std::int64_t row, std::int64_t head,
                float rate, float* out) {
  const KdaShape& shape = args.shape;
  const std::int64_t count = shape.decay_per_head ? 1 : shape.head_dim_k;
  const float* logits = args.decay_logits.f32() + row * shape.decay_channels() + head * count;
  const float* bias = args.dt_bias + head * count;
  if (args.gate_lower_bound) {
    context.leaf.decay_bounded(logits, bias, count, rate, *args.gate_lower_bound, out);
  } else {
    context.leaf.decay_softplus(logits, bias, count, rate, out);
  }
  if (shape.decay_per_head) std::fill_n(out, shape.head_dim_k, out[0]);
}

void kda_finish(const Context& context, const KdaMixArgs& args, std::int64_t row, std::int64_t head,
                float* o) {
  const LeafTable& leaf = context.leaf;
  const std::int64_t dv = args.shape.head_dim_v;
  const std::int64_t at = row * args.shape.value_channels() + head * dv;
  if (context.round) leaf.round_bf16(o, dv);
  const float mean = leaf.sum_squares(o, dv) / static_cast<float>(dv);
  const float* gate = args.gate ? args.gate.f32() + at : nullptr;
  leaf.norm_gate(o, 1.0f / std::sqrt(mean + args.norm_eps), args.o_norm, gate, dv,
                 args.out.f32() + at, context.round);
}

}  // namespace baltoro::cpu
