// The gate of gated MLPs (device/glu.cuh) where the result is rounded to bf16: tanh and sigmoid from
// the hardware's exponential and reciprocal, relative error below 1e-5, a quarter of the
// instructions. Epilogues of the experts would else take a third of the time of their products.
#pragma once

#include "cuda/device/activation.cuh"
#include "ops/glu_mlp.h"

namespace baltoro::cuda {

__device__ __forceinline__ float quick_reciprocal(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// e^x.
__device__ __forceinline__ float quick_exp(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * 1.4426950408889634f));
  return r;
}
__device__ __forceinline__ float quick_sigmoid(float x) {
  return quick_reciprocal(1.0f + quick_exp(-x));
}
// By its series below 1/4, where 1 - 2 / (1 + e^2x) cancels.
__device__ __forceinline__ float quick_tanh(float x) {
  const float s = x * x;
  float series = fmaf(s, 62.0f / 2835, -17.0f / 315);
  series = fmaf(s, series, 2.0f / 15);
  series = fmaf(s, series, -1.0f / 3);
  series = fmaf(x * s, series, x);
  const float far = fmaf(-2.0f, quick_reciprocal(1.0f + quick_exp(2.0f * x)), 1.0f);
  return fabsf(x) < 0.25f ? series : far;
}

// glu<bf16> of sums that are not rounded yet.
__device__ __forceinline__ float quick_glu(const Activation& activation, float g, float u) {
  g = round_as<bf16>(g);
  u = round_as<bf16>(u);
  if (activation.kind == ActivationKind::kSwiglu) {
    return round_as<bf16>(round_as<bf16>(g * quick_sigmoid(g)) * u);
  }
  const float beta = activation.beta, linear_beta = activation.linear_beta;
  return round_as<bf16>(beta * quick_tanh(g * quick_reciprocal(beta)) * quick_sigmoid(g) *
                        (linear_beta * quick_tanh(u * quick_reciprocal(linear_beta))));
}

}  // namespace baltoro::cuda
