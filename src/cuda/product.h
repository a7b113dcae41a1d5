// Products of activations with stored weights, which linear, glu_mlp and head share: for each
// weight W [N, K] of up to eight, y = x W^T with x [M, K], summed in f32, then finished.
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "cuda/context.h"
#include "ops/glu_mlp.h"
#include "ops/linear.h"

namespace baltoro::cuda {

// What becomes of the sums y.
enum class Finish : std::uint8_t {
  kStore,   // out = round(y)
  kAdd,     // out = round(add + round(y)); add may be out
  kGlu,     // of two weights of one shape: out = act(round(y_0), round(y_1)), `out` of the first
  kLogits,  // out = y, f32 whatever the activations
};

struct ProductOutput {
  WeightView weight;  // [N, K]
  void* out;          // [M, N] activations
};

// Passed to kernels by value.
struct Product {
  const void* x;  // [M, K] activations
  std::int64_t rows;
  std::int64_t cols;
  ProductOutput outputs[LinearArgs::kMaxOutputs];
  int num_outputs;
  Finish finish;
  const void* add;  // kAdd: [M, N] activations
  Activation activation;

  // Weights that have tiles of their own: those of kGlu share theirs.
  constexpr int num_tiled() const { return finish == Finish::kGlu ? 1 : num_outputs; }
};

// By the fastest kernel that serves it.
void multiply(Context& context, const Product& product);

// Every format at any alignment, one warp an element. The order of a sum depends on K alone.
void multiply_plain(Context& context, const Product& product);

}  // namespace baltoro::cuda
