// Weight times rows for ranges of outputs: the bridge from views to the matmul leaf.
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "cpu/context.h"

namespace baltoro::cpu {

// Rows of f32 values: row m is data + row_of(m) * stride.
struct Rows {
  const float* data = nullptr;
  std::int64_t stride = 0;
  const std::int32_t* index = nullptr;  // row_of(m) = index[m]; null: m
  std::int64_t count = 0;
  bool bf16_values = false;  // each value is a bf16 value

  Rows slice(std::int64_t begin, std::int64_t n) const {
    Rows rows = *this;
    rows.count = n;
    if (index != nullptr) {
      rows.index = index + begin;
    } else {
      rows.data = data + begin * stride;
    }
    return rows;
  }
};

// Scratch of one worker that multiplies.
struct ProductWork {
  float* matmul = nullptr;
  void carve(Carver& carver) { matmul = carver.floats(kMatmulScratchFloats); }
};

// How a weight is split for parallel loops: tile t covers outputs [32 t, 32 t + 32).
constexpr std::int64_t num_tiles(std::int64_t outputs) {
  return (outputs + kMatmulOutputs - 1) / kMatmulOutputs;
}
struct Range {
  std::int64_t begin, count;
};
constexpr Range tile_range(std::int64_t tile, std::int64_t outputs) {
  const std::int64_t begin = tile * kMatmulOutputs;
  const std::int64_t left = outputs - begin;
  return {begin, left < kMatmulOutputs ? left : kMatmulOutputs};
}

// A weight as the leaf sees it: `rows` rows of `cols` values.
struct Matrix {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scales = nullptr;
  LeafFormat format = LeafFormat::kF32;
  std::int64_t row_bytes = 0;
  std::int64_t scale_bytes = 0;
  std::int64_t rows = 0, cols = 0;

  explicit Matrix(const WeightView& weight);
  // f32 values, row i at values + i * stride.
  Matrix(const float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t num_cols);
};

// Where results go: row m at data + m * stride.
struct Output {
  float* data = nullptr;
  std::int64_t stride = 0;
};

// out[m, n] = weight[n] . x[m] for all rows and all rows of the weight, unrounded.
void multiply(const Context& context, const Matrix& weight, const Rows& x, const Output& out,
              const ProductWork& work);

}  // namespace baltoro::cpu
