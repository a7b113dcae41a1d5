// Rotary embedding of one pair (x[i], x[i + 1]), i even, of a vector of `size` values; angles in
// double, because positions reach a million.
#pragma once

namespace baltoro::cuda {

__device__ __forceinline__ float2 rotate_pair(float2 x, int i, int size, long long position,
                                              float theta) {
  const double angle =
      static_cast<double>(position) *
      pow(static_cast<double>(theta), -static_cast<double>(i) / static_cast<double>(size));
  double sine, cosine;
  sincos(angle, &sine, &cosine);
  return make_float2(static_cast<float>(x.x * cosine - x.y * sine),
                     static_cast<float>(x.x * sine + x.y * cosine));
}

}  // namespace baltoro::cuda
