// The language-model head on chosen rows: logits[i] = W x[rows[i]], f32 and never rounded.
#pragma once

#include <cstdint>
#include <span>

#include "baltoro/types.h"
#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"
#include "ops/draw.h"

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

// The head of rows whose logits stay with the backend, and a token drawn from each.
struct HeadDrawArgs {
  ConstTensorView x;
  std::span<const std::int32_t> rows;
  WeightView weight;
  std::span<const Draw> draws;  // [n]
  Drawn* drawn = nullptr;       // [n] memory of allocate_shared()
};

// In order with the other ops, and may be recorded with them: the tokens are there after
// Backend::synchronize(). Backend::fetch_logits then copies rows of logits, until the next call of
// either head.
void head_draw(Backend& backend, const HeadDrawArgs& args);

// rows: how many rows of logits.
Cost head_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype = DType::kBf16);

}  // namespace baltoro
