#include "model/rms_norm.h"

#include "ops/mix_norm.h"

namespace baltoro {

void rms_norm(Backend& backend, int layer, const TensorView& x, std::span<const float> weight,
              float eps, const TensorView& out) {
  MixNormArgs args;
  args.layer = layer;
  args.prefix = x;
  args.norm = weight.data();
  args.norm_eps = eps;
  args.out = out;
  mix_norm(backend, args);
}

}  // namespace baltoro
