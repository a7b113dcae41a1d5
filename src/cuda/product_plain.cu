// The product that serves everything: any format, any alignment, any size, both activation types.
#include "cuda/device/finish.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/weight_row.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 4;      // a block; each has one row of a weight
constexpr int kRowsAWarp = 8;  // of x

template <typename T, Finish kFinish>
__global__ void plain(Product p) {
  constexpr int kWeights = kFinish == Finish::kGlu ? 2 : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  int i = 0;
  while (i < p.num_tiled() && n >= p.outputs[i].weight.rows) n -= p.outputs[i++].weight.rows;
  if (i == p.num_tiled()) return;
  const std::int64_t m0 = std::int64_t{blockIdx.y} * kRowsAWarp;
  const int count = static_cast<int>(min(std::int64_t{kRowsAWarp}, p.rows - m0));
  const T* x = static_cast<const T*>(p.x) + m0 * p.cols;

  float sum[kWeights][kRowsAWarp] = {};
  for (std::int64_t k = lane; k < p.cols; k += 32) {
    float w[kWeights];
#pragma unroll
    for (int j = 0; j < kWeights; ++j) w[j] = weight_at(p.outputs[i + j].weight, n, k);
#pragma unroll
    for (int r = 0; r < kRowsAWarp; ++r) {
      if (r >= count) break;
      const float value = to_f32(x[r * p.cols + k]);
#pragma unroll
      for (int j = 0; j < kWeights; ++j) sum[j][r] += w[j] * value;
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAWarp; ++r) {
    if (r >= count) break;
    const float y = warp_sum(sum[0][r]);
    const float y_up = kWeights == 2 ? warp_sum(sum[kWeights - 1][r]) : 0;
    const std::int64_t at = (m0 + r) * p.outputs[i].weight.rows + n;
    if (lane == 0) finish<T, kFinish>(p, p.outputs[i], at, y, y_up);
  }
}

template <typename T>
auto kernel_of(Finish finish) {
  switch (finish) {
    case Finish::kStore:
      return plain<T, Finish::kStore>;
    case Finish::kAdd:
      return plain<T, Finish::kAdd>;
    case Finish::kGlu:
      return plain<T, Finish::kGlu>;
    case Finish::kLogits:
      break;
  }
  return plain<T, Finish::kLogits>;
}

}  // namespace

void multiply_plain(Context& context, const Product& product) {
  std::int64_t weight_rows = 0;
  for (int i = 0; i < product.num_tiled(); ++i) weight_rows += product.outputs[i].weight.rows;
  const Launch how{.name = "product",
                   .grid = dim3(ceil_div(weight_rows, kWarps), ceil_div(product.rows, kRowsAWarp)),
                   .block = dim3(kWarps * 32),
                   .stream = context.stream};
  const auto kernel = context.activation == DType::kBf16 ? kernel_of<bf16>(product.finish)
                                                         : kernel_of<float>(product.finish);
  launch(how, kernel, product);
}

}  // namespace baltoro::cuda
