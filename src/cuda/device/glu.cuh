// The gate of gated MLPs (ops/glu_mlp.h), for dense layers and experts alike.
#pragma once

#include "cuda/device/activation.cuh"
#include "ops/glu_mlp.h"

namespace baltoro::cuda {

// act(g, u) of two sums that are not rounded yet; the result is as T stores it.
template <typename T>
__device__ __forceinline__ float glu(const Activation& activation, float g, float u) {
  g = round_as<T>(g);
  u = round_as<T>(u);
  if (activation.kind == ActivationKind::kSwiglu) return round_as<T>(round_as<T>(silu(g)) * u);
  const float beta = activation.beta;
  const float linear_beta = activation.linear_beta;
  return round_as<T>(beta * tanhf(g / beta) * sigmoid(g) * (linear_beta * tanhf(u / linear_beta)));
}

}  // namespace baltoro::cuda
