#include <cuda_fp16.h>

#include "cuda/device/activation.cuh"
#include "cuda/device/e4m3.cuh"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(bf16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ void narrow(float value, float& to) { to = value; }
__device__ __forceinline__ void narrow(float value, bf16& to) { to = __float2bfloat16_rn(value); }
__device__ __forceinline__ void narrow(float value, __half& to) { to = __float2half_rn(value); }

// One block a row.
template <typename T>
__global__ void __launch_bounds__(kThreads) round_rows(RowPieces rows, const T* from, T* to) {
  __shared__ std::uint32_t largest;
  const std::int64_t row = blockIdx.x;
  if (rows.num_rows != nullptr && row >= *rows.num_rows) return;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const std::int64_t count = rows.pieces * rows.piece;
  const auto at = [&](std::int64_t i) {
    return row * rows.row_stride + i / rows.piece * rows.piece_stride + i % rows.piece;
  };
  // Magnitudes are ordered as their bits, infinity and NaN above the rest.
  std::uint32_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    mine = max(mine, __float_as_uint(widen(from[at(i)])) & 0x7fffffffu);
  }
  atomicMax(&largest, mine);
  __syncthreads();
  const bool finite = largest < 0x7f800000u;
  const int exponent = e4m3_row_exponent(__uint_as_float(largest));
  const float down = power_of_two(-exponent), up = power_of_two(exponent);
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    const float value = round_e4m3(widen(from[at(i)]) * down) * up;
    narrow(finite ? value : __uint_as_float(0x7fc00000u), to[at(i)]);
  }
}

}  // namespace

template <typename T>
void round_fp8_rows(Context& context, const RowPieces& rows, const T* from, T* to) {
  launch({"round rows to fp8", static_cast<unsigned>(rows.rows), kThreads, 0, context.stream},
         round_rows<T>, rows, from, to);
}

template void round_fp8_rows<float>(Context&, const RowPieces&, const float*, float*);
template void round_fp8_rows<bf16>(Context&, const RowPieces&, const bf16*, bf16*);
template void round_fp8_rows<__half>(Context&, const RowPieces&, const __half*, __half*);

}  // namespace baltoro::cuda
