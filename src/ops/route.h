// The router: sigmoid scores, biased top-k, unbiased weights (specification 6.3).
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

// Per row:
//   s = sigmoid(W x)        f32 accumulation of true f32 products; W and x are not rounded further
//   chosen = the top_k largest of s + bias, in descending order; ties go to the lower index
//   weight_i = s_i / (sum over chosen of s + 1e-20) * scale, or s_i * scale without renormalisation
// The bias steers the choice alone. A row with a NaN score gets expert 0..top_k-1 and NaN weights.
struct RouteArgs {
  int layer = -1;
  ConstTensorView x;            // [M, K]
  WeightView weight;            // [E, K]
  const float* bias = nullptr;  // [E]
  int top_k = 0;
  bool renormalize = true;
  float scale = 1;
  std::int32_t* ids = nullptr;  // [M, top_k]
  float* weights = nullptr;     // [M, top_k]
};

void route(Backend& backend, const RouteArgs& args);

// 2 M E K FLOPs; writes the chosen ids and weights, not the scores.
Cost route_cost(std::int64_t rows, const WeightView& weight, int top_k,
                DType activation_dtype = DType::kBf16);

}  // namespace baltoro
