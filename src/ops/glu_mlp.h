// A gated MLP: out = W_down act(W_gate x, W_up x). Dense layers and shared experts.
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

enum class ActivationKind : std::uint8_t {
  kSitu,    // beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta), f32 inside, one
            // rounding; sigmoid sees the uncapped g
  kSwiglu,  // round(g sigmoid(g)) * u, rounded: two roundings
};

struct Activation {
  ActivationKind kind = ActivationKind::kSitu;
  float beta = 0;         // kSitu only
  float linear_beta = 0;  // kSitu only
};

struct GluMlpArgs {
  int layer = -1;
  ConstTensorView x;  // [M, D]
  WeightView gate;    // [F, D]
  WeightView up;      // [F, D]
  WeightView down;    // [D', F]
  Activation activation;
  // out = round(add + round(W_down ...)) where given; may alias out.
  ConstTensorView add;  // [M, D'] or empty
  TensorView out;       // [M, D']
};

void glu_mlp(Backend& backend, const GluMlpArgs& args);

// The three products; x read and out written, nothing between them.
Cost glu_mlp_cost(std::int64_t rows, const WeightView& gate, const WeightView& up,
                  const WeightView& down, DType activation_dtype = DType::kBf16);

}  // namespace baltoro
