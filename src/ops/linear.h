// Several linear layers on one input: out_i = W_i x, row by row, no bias.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

struct LinearOutput {
  WeightView weight;  // [N, K]
  TensorView out;     // [M, N] activations
};

// Each row's result depends on that row and K alone: M = 1 gives the same bits as the same row
// among many.
struct LinearArgs {
  static constexpr int kMaxOutputs = 8;

  int layer = -1;     // for traces and error messages
  ConstTensorView x;  // [M, K] activations
  std::array<LinearOutput, kMaxOutputs> outputs = {};
  int num_outputs = 0;

  void add(const WeightView& weight, const TensorView& out) {
    outputs[static_cast<std::size_t>(num_outputs++)] = {weight, out};
  }
};

void linear(Backend& backend, const LinearArgs& args);

// One weight: 2 M N K FLOPs; x is counted once per weight.
Cost linear_cost(std::int64_t rows, const WeightView& weight,
                 DType activation_dtype = DType::kBf16);

}  // namespace baltoro
