// The language-model head on chosen rows: logits[i] = W x[rows[i]], f32 and never rounded.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

struct HeadArgs {
  ConstTensorView x;                   // [M, D] after the final norm
  std::span<const std::int32_t> rows;  // [n] rows of x
  WeightView weight;                   // [V, D]
  float* logits = nullptr;             // [n, V] host memory
  std::int32_t* bad =
      nullptr;  // [n] host memory, or null: 1 where a logit of the row is an infinity or NaN, else 0
};

void head(Backend& backend, const HeadArgs& args);

// rows: how many rows of logits.
Cost head_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype = DType::kBf16);

}  // namespace baltoro
