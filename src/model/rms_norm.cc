#include "model/rms_norm.h"

#include "ops/mix_norm.h"

namespace baltoro {

void rms_norm(LayerContext& context, const TensorView& x, std::span<const float> weight, float eps,
              const TensorView& out) {
  MixNormArgs args;
  args.layer = context.layer;
  args.prefix = x;
  args.norm = weight.data();
  args.norm_eps = eps;
  args.out = out;
  mix_norm(context.backend, args);
}

}  // namespace baltoro
