// RMSNorm of one tensor: the mix_norm op with a single source.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "model/layer_context.h"

namespace baltoro {

// out[r] = weight * x[r] * rsqrt(mean(x[r]^2) + eps), two roundings in bf16 mode. x, out [M, D];
// out may not alias x.
void rms_norm(LayerContext& context, const TensorView& x, std::span<const float> weight, float eps,
              const TensorView& out);

}  // namespace baltoro
