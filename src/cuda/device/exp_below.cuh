// The weight of a logit, bit for bit that of ops/logits.cc: each operation is rounded by itself.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kToInteger = 12582912.0f;
  const float shifted = __fadd_rn(__fmul_rn(x, kLog2E), kToInteger);
  const float n = __fsub_rn(shifted, kToInteger);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, kLn2High)), __fmul_rn(n, kLn2Low));
  float p = 1.0f / 720;
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 120);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 24);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 6);
  p = __fadd_rn(__fmul_rn(p, r), 0.5f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

// Of (logit - largest) / temperature, which is not above 0; 0 from -87 on.
__device__ __forceinline__ float weight_of(float below) {
  constexpr float kLeast = -87;
  const float x = __uint_as_float(min(__float_as_uint(below), __float_as_uint(kLeast)));
  return __fsub_rn(exp_of(x), exp_of(kLeast));
}

}  // namespace baltoro::cuda
