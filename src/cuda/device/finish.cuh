// The last step of a product (cuda/product.h), for one element.
#pragma once

#include "cuda/device/glu.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {

// Element `at` of the output. y: its sum; kGlu: y and y_up are the sums of gate and up.
template <typename T, Finish kFinish>
__device__ __forceinline__ void finish(const Product& p, const ProductOutput& output,
                                       std::int64_t at, float y, float y_up = 0) {
  if constexpr (kFinish == Finish::kLogits) {
    static_cast<float*>(output.out)[at] = y;
  } else {
    float value = y;
    if constexpr (kFinish == Finish::kAdd) {
      value = to_f32(static_cast<const T*>(p.add)[at]) + round_as<T>(y);
    }
    if constexpr (kFinish == Finish::kGlu) value = glu<T>(p.activation, y, y_up);
    static_cast<T*>(output.out)[at] = from_f32<T>(value);
  }
}

}  // namespace baltoro::cuda
