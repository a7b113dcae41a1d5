// Token embedding: out[r] = table[ids[r]].
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

struct EmbedArgs {
  WeightView table;                   // [V, D]; kF32, kBf16 or kF16
  std::span<const std::int32_t> ids;  // [M], host memory, each in [0, V)
  TensorView out;                     // [M, D] activations
};

// Throws Error{kUsage} for an id outside the table, Error{kInternal} for a shape mismatch.
void embed(Backend& backend, const EmbedArgs& args);

// Reads one table row a token; no FLOPs.
Cost embed_cost(std::int64_t rows, std::int64_t hidden, WeightFormat format,
                DType activation_dtype = DType::kBf16);

}  // namespace baltoro
