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
  // The kernel ahead on the stream writes a weight, which therefore must not be read early.
  bool fresh_weights = false;

  // Weights that have tiles of their own: those of kGlu share theirs.
  constexpr int num_tiled() const { return finish == Finish::kGlu ? 1 : num_outputs; }
};

// Blocks that a kernel needs along the outputs.
constexpr unsigned num_blocks(const Product& product, std::int64_t rows_a_block) {
  std::int64_t blocks = 0;
  for (int i = 0; i < product.num_tiled(); ++i) {
    blocks += (product.outputs[i].weight.rows + rows_a_block - 1) / rows_a_block;
  }
  return static_cast<unsigned>(blocks);
}

// By the fastest kernels that serve it. Takes scratch: an op begins with multiply_scratch bytes for
// each product beside its own.
void multiply(Context& context, const Product& product);
std::size_t multiply_scratch(Context& context, const Product& product);

// Every format at any alignment, one warp an element. The order of a sum depends on K alone.
void multiply_plain(Context& context, const Product& product);

// These two take bf16 weights and activations at 16-byte alignment, K a multiple of 8, and give the
// same bits, in an order that depends on K alone: one reads the weights once for up to 32 rows of
// x, the other is for many. The first also takes weights that are all MXINT8 at 16-byte
// alignment, whose sums have an order of their own.
void multiply_stream(Context& context, const Product& product);
void multiply_tiled(Context& context, const Product& product);

// bf16 weights and activations by cuBLASLt, where it serves the product.
bool multiply_large_serves(Context& context, const Product& product);
std::size_t multiply_large_scratch(const Product& product);
void multiply_large(Context& context, const Product& product);

// Writes the values of a weight, exact in bf16, as such.
void write_bf16(Context& context, const WeightView& weight, void* out);

}  // namespace baltoro::cuda
