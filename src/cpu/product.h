// Weight times rows for ranges of outputs: the bridge from views to the matmul leaf.
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "cpu/context.h"

namespace baltoro::cpu {

constexpr std::int64_t packed_depth(std::int64_t depth) {
  return (depth + kPackedAlign - 1) / kPackedAlign * kPackedAlign;
}

// Whether rows that meet such weights are packed in the order of bf16 weights.
constexpr bool packs_plain(LeafFormat format) {
  return format == LeafFormat::kBf16 || format == LeafFormat::kMxint8;
}

// Rows of f32 values: row m is data + row_of(m) * stride.
struct Rows {
  const float* data = nullptr;
  std::int64_t stride = 0;
  const std::int32_t* index = nullptr;  // row_of(m) = index[m]; null: m
  std::int64_t count = 0;
  bool bf16_values = false;  // each value is a bf16 value
  // The same rows in the leaf table's order, for MXFP4 weights and for others; null: not packed.
  const std::uint16_t* packed_mxfp4 = nullptr;
  const std::uint16_t* packed_plain = nullptr;
  const std::uint8_t* narrow = nullptr;  // [count], see MatmulArgs

  const std::uint16_t* packed(LeafFormat format) const {
    if (format == LeafFormat::kMxfp4) return packed_mxfp4;
    return packs_plain(format) ? packed_plain : nullptr;
  }
  // At most kPackedGroup rows from `begin` on, a multiple of kPackedRows.
  Rows group(std::int64_t begin, std::int64_t depth) const {
    const std::int64_t left = count - begin;
    Rows rows = slice(begin, left < kPackedGroup ? left : kPackedGroup);
    const std::int64_t words = begin * packed_depth(depth);
    if (packed_mxfp4 != nullptr) {
      rows.packed_mxfp4 = packed_mxfp4 + words;
      rows.narrow = narrow + begin;
    }
    if (packed_plain != nullptr) rows.packed_plain = packed_plain + words;
    return rows;
  }
  // Rows [begin, begin + n), not packed.
  Rows slice(std::int64_t begin, std::int64_t n) const {
    Rows rows = *this;
    rows.packed_mxfp4 = rows.packed_plain = nullptr;
    rows.narrow = nullptr;
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

// Memory for rows in the leaf table's order, and the packing, which happens once an op. Where the
// table has no such order or the rows are not bf16 it takes none and does nothing.
struct PackedRows {
  std::int64_t count = 0, depth = 0;
  bool wants_mxfp4 = false, wants_plain = false;
  std::uint16_t* mxfp4 = nullptr;  // [count, packed_depth(depth)]
  std::uint16_t* plain = nullptr;
  std::uint8_t* narrow = nullptr;  // [count] of mxfp4

  PackedRows() = default;
  PackedRows(std::int64_t num_rows, std::int64_t row_depth) : count(num_rows), depth(row_depth) {}
  // Called for each weight that the rows will meet, before carve().
  void meet(const Context& context, WeightFormat format);
  void carve(Carver& carver);
  // x with these as its packed rows, filled. At most `count` rows.
  Rows pack(Context& context, const Rows& x) const;
  // The same for a part of the rows by one worker: x, which go to rows `at` and following ...
  void pack_part(const Context& context, const Rows& x, std::int64_t at) const;
  // ... and x with what was packed there.
  Rows attach(const Rows& x, std::int64_t at) const;
  bool empty() const { return mxfp4 == nullptr && plain == nullptr; }
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
