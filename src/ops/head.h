// The language-model head on chosen rows: logits[i] = W x[rows[i]], f32 and never rounded.
#pragma once

#include <cstdint>
#include <span>

#include "baltoro/types.h"
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

// The largest logits of a row, in host memory.
struct TopRow {
  float logits[kTopLogits];  // descending, the lower id first among equals
  std::int32_t ids[kTopLogits];
  std::int32_t count;  // of the two lists; 0 where a device had no room to find them
  std::int32_t whole;  // not 0: the row has no more that are allowed
  double total;
  double tempered_total;  // as in TopLogits
};

// The head of rows whose logits stay with the backend, but for the largest.
struct HeadTopArgs {
  ConstTensorView x;
  std::span<const std::int32_t> rows;
  WeightView weight;
  const std::uint8_t* banned = nullptr;  // [V] in the backend's memory, not 0: left out; or null
  std::span<const float> temperatures;   // [n], above 0
  TopRow* top = nullptr;                 // [n] memory of allocate_shared()
  std::int32_t* bad = nullptr;           // [n] likewise, as in HeadArgs
};

// Backend::fetch_logits then copies rows of logits, until the next call of either head.
void head_top(Backend& backend, const HeadTopArgs& args);

// For backends whose logits are in host memory: one row.
void find_top(std::span<const float> logits, const std::uint8_t* banned, float temperature,
              TopRow& top);

// rows: how many rows of logits.
Cost head_cost(std::int64_t rows, const WeightView& weight, DType activation_dtype = DType::kBf16);

}  // namespace baltoro
