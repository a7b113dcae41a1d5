#include "cpu/product.h"

#include <algorithm>

namespace baltoro::cpu {

static_assert(static_cast<int>(LeafFormat::kF32) == static_cast<int>(WeightFormat::kF32));
static_assert(static_cast<int>(LeafFormat::kBf16) == static_cast<int>(WeightFormat::kBf16));
static_assert(static_cast<int>(LeafFormat::kF16) == static_cast<int>(WeightFormat::kF16));
static_assert(static_cast<int>(LeafFormat::kMxfp4) == static_cast<int>(WeightFormat::kMxfp4));
static_assert(static_cast<int>(LeafFormat::kMxint8) == static_cast<int>(WeightFormat::kMxint8));

Matrix::Matrix(const WeightView& weight)
    : data(static_cast<const std::uint8_t*>(weight.data)),
      scales(weight.scales),
      format(static_cast<LeafFormat>(weight.format)),
      row_bytes(weight.row_bytes()),
      scale_bytes(weight.scale_cols()),
      rows(weight.rows),
      cols(weight.cols) {}

Matrix::Matrix(const float* values, std::int64_t stride, std::int64_t num_rows,
               std::int64_t num_cols)
    : data(reinterpret_cast<const std::uint8_t*>(values)),
      row_bytes(stride * static_cast<std::int64_t>(sizeof(float))),
      rows(num_rows),
      cols(num_cols) {}

void PackedRows::meet(const Context& context, WeightFormat format) {
  if (context.leaf.pack_rows == nullptr || !context.round) return;
  wants_mxfp4 |= format == WeightFormat::kMxfp4;
  wants_plain |= packs_plain(static_cast<LeafFormat>(format));
}

void PackedRows::carve(Carver& carver) {
  const std::int64_t words = count * packed_depth(depth);
  if (wants_mxfp4) {
    mxfp4 = carver.take<std::uint16_t>(words);
    narrow = carver.take<std::uint8_t>(count);
  }
  if (wants_plain) plain = carver.take<std::uint16_t>(words);
}

void PackedRows::pack_part(const Context& context, const Rows& x, std::int64_t at) const {
  PackArgs args;
  args.x = x.data;
  args.x_stride = x.stride;
  args.x_rows = x.index;
  args.num_rows = x.count;
  args.depth = depth;
  if (mxfp4 != nullptr) {
    args.format = LeafFormat::kMxfp4;
    args.out = mxfp4 + at * packed_depth(depth);
    args.narrow = narrow + at;
    std::fill_n(args.narrow, x.count, std::uint8_t{0});
    context.leaf.pack_rows(args);
  }
  if (plain != nullptr) {
    args.format = LeafFormat::kBf16;
    args.out = plain + at * packed_depth(depth);
    context.leaf.pack_rows(args);
  }
}

Rows PackedRows::attach(const Rows& x, std::int64_t at) const {
  Rows out = x;
  if (mxfp4 != nullptr) {
    out.packed_mxfp4 = mxfp4 + at * packed_depth(depth);
    out.narrow = narrow + at;
  }
  if (plain != nullptr) out.packed_plain = plain + at * packed_depth(depth);
  return out;
}

Rows PackedRows::pack(Context& context, const Rows& x) const {
  if (empty()) return x;
  const auto body = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t m = begin * kPackedRows; m < std::min(end * kPackedRows, x.count);
         m += kPackedRows) {
      pack_part(context, x.slice(m, std::min(kPackedRows, x.count - m)), m);
    }
  };
  context.pool.parallel_for((x.count + kPackedRows - 1) / kPackedRows, 1, body);
  return attach(x, 0);
}

// Rows outside, outputs inside: a block of rows stays in L2 while the weights pass.
void multiply(const Context& context, const Matrix& weight, const Rows& x, const Output& out,
              const ProductWork& work) {
  const auto matmul = x.bf16_values ? context.leaf.matmul_bf16 : context.leaf.matmul;
  MatmulArgs args;
  args.format = weight.format;
  args.weight_stride = weight.row_bytes;
  args.scale_stride = weight.scale_bytes;
  args.depth = weight.cols;
  args.x_stride = x.stride;
  args.out_stride = out.stride;
  args.scratch = work.matmul;
  args.packed = x.packed(weight.format);
  args.narrow = x.narrow;
  const std::int64_t block = args.packed != nullptr ? x.count : kMatmulRows;
  for (std::int64_t m = 0; m < x.count; m += block) {
    const Rows rows = x.slice(m, std::min(block, x.count - m));
    args.x = rows.data;
    args.x_rows = rows.index;
    args.num_rows = rows.count;
    for (std::int64_t n = 0; n < weight.rows; n += kMatmulOutputs) {
      args.weight = weight.data + n * weight.row_bytes;
      args.scales = weight.scales == nullptr ? nullptr : weight.scales + n * weight.scale_bytes;
      args.num_outputs = std::min(kMatmulOutputs, weight.rows - n);
      args.out = out.data + m * out.stride + n;
      matmul(args);
    }
  }
}

}  // namespace baltoro::cpu
