// Weights whose values are exact in bf16, written out as such.
#include "cuda/device/mx_vector.cuh"
#include "cuda/device/weight_row.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // values a thread, of one row and one group

struct alignas(sizeof(bf16) * kVector) Values {
  bf16 at[kVector];
};

__global__ void __launch_bounds__(kThreads) widen(WeightView w, Values* out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i * kVector >= w.rows * w.cols) return;
  const std::int64_t row = i * kVector / w.cols, col = i * kVector % w.cols;
  // A whole vector of the format that a trunk is stored in.
  if (w.format == WeightFormat::kMxint8 &&
      reinterpret_cast<std::uintptr_t>(w.data) % kVector == 0) {
    const uint2 codes = static_cast<const uint2*>(w.data)[i];
    const uint4 values =
        mxint8_to_bf16(codes, w.scales[row * (w.cols / kMxGroup) + col / kMxGroup]);
    *reinterpret_cast<uint4*>(out + i) = values;
    return;
  }
  Values values;
#pragma unroll
  for (int j = 0; j < kVector; ++j) values.at[j] = from_f32<bf16>(weight_at(w, row, col + j));
  out[i] = values;
}

}  // namespace

void write_bf16(Context& context, const WeightView& weight, void* out) {
  const Launch how{.name = "weight as bf16",
                   .grid = dim3(ceil_div(weight.rows * weight.cols / kVector, kThreads)),
                   .block = dim3(kThreads),
                   .stream = context.stream};
  launch(how, widen, weight, static_cast<Values*>(out));
}

}  // namespace baltoro::cuda
