#include "cpu/product.h"

#include <algorithm>

#include "core/mxfp4.h"

namespace baltoro::cpu {

static_assert(static_cast<int>(LeafFormat::kF32) == static_cast<int>(WeightFormat::kF32));
static_assert(static_cast<int>(LeafFormat::kBf16) == static_cast<int>(WeightFormat::kBf16));
static_assert(static_cast<int>(LeafFormat::kF16) == static_cast<int>(WeightFormat::kF16));
static_assert(static_cast<int>(LeafFormat::kMxfp4) == static_cast<int>(WeightFormat::kMxfp4));

Matrix::Matrix(const WeightView& weight)
    : data(static_cast<const std::uint8_t*>(weight.data)),
      scales(weight.scales),
      format(static_cast<LeafFormat>(weight.format)),
      row_bytes(weight.row_bytes()),
      scale_bytes(weight.format == WeightFormat::kMxfp4 ? weight.cols / kMxfp4Group : 0),
      rows(weight.rows),
      cols(weight.cols) {}

Matrix::Matrix(const float* values, std::int64_t stride, std::int64_t num_rows,
               std::int64_t num_cols)
    : data(reinterpret_cast<const std::uint8_t*>(values)),
      row_bytes(stride * static_cast<std::int64_t>(sizeof(float))),
      rows(num_rows),
      cols(num_cols) {}

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
  for (std::int64_t m = 0; m < x.count; m += kMatmulRows) {
    const Rows rows = x.slice(m, std::min(kMatmulRows, x.count - m));
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
