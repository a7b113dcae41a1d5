// The routed experts of one layer, on the rows' chosen experts, from their stored form
// (specification 6.4).
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"
#include "ops/glu_mlp.h"

namespace baltoro {

// One routed expert as it lies in the checkpoint.
struct ExpertWeights {
  WeightView w1;  // gate [F, Z]
  WeightView w3;  // up   [F, Z]
  WeightView w2;  // down [Z, F]
};

// Says which experts may be read now, where not all are in memory (model/mapped_weights.h).
class ExpertFeed {
 public:
  virtual ~ExpertFeed() = default;
  // `ids`: the distinct experts that the op has yet to use, in the order of their use. Returns how
  // many of the first are in memory until the next call, at least one; waits for them. Throws
  // Error{kIo}.
  virtual std::size_t acquire(std::span<const std::int32_t> ids) = 0;
};

// Per row: out = round(sum over slots a, in slot order, of weights[a] * round(w2 act(w1 z, w3 z))),
// the sum in f32. Rows are grouped by expert; the bits of a row do not depend on its neighbours.
// With ExpertActivations::kFp8 the row z and each row that act() gives, [F], are rounded once more
// before they are multiplied, to e4m3 values times one power of two a row (core/e4m3.h); MXFP4
// experts only.
struct ExpertMlpArgs {
  int layer = -1;
  ConstTensorView z;                  // [M, Z] (or [M, D] for full-width experts)
  const std::int32_t* ids = nullptr;  // [M, top_k], each in [0, table size)
  const float* weights = nullptr;     // [M, top_k]
  int top_k = 0;
  std::span<const ExpertWeights>
      experts;                  // indexed by expert id; those that `ids` names must be present
  const void* table = nullptr;  // Backend::expert_table of `experts`, or null
  ExpertFeed* feed = nullptr;   // null: all experts are in memory
  Activation activation;
  ExpertActivations expert_activations = ExpertActivations::kSame;
  TensorView out;  // [M, Z]
};

void expert_mlp(Backend& backend, const ExpertMlpArgs& args);

// distinct_experts: how many experts the rows touch together; each is read once. z is read and out
// written once a row.
Cost expert_mlp_cost(std::int64_t rows, int top_k, double distinct_experts,
                     const ExpertWeights& expert, DType activation_dtype = DType::kBf16);

}  // namespace baltoro
