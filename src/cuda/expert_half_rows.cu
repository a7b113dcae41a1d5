#include <cmath>

#include "cuda/device/mxfp4_half.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/word.cuh"
#include "cuda/expert_half_rows.h"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ std::uint32_t to_half(std::uint32_t low, std::uint32_t high,
                                                 float scale) {
  const __half2 pair =
      __floats2half2_rn(__uint_as_float(low) * scale, __uint_as_float(high) * scale);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

// z [M, width] to fp16 in mxfp4_position order, each row times the power of two that takes its
// largest magnitude to [2^14, 2^15): what fp16 then loses is 2^-39 of that magnitude and less. One
// block a row.
__global__ void arrange(const uint4* z, int vectors, uint4* out, float* unscale) {
  __shared__ std::uint32_t largest;
  wait_for_previous_kernel();
  // From here on the next kernel may read what kernels before this one wrote: ids and groups.
  start_next_kernel();
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  z += static_cast<std::int64_t>(blockIdx.x) * vectors;
  out += static_cast<std::int64_t>(blockIdx.x) * vectors;
  std::uint32_t mine = 0;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const uint4 v = z[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t two = word_of(v, j) & 0x7fff7fffu;
      mine = max(mine, max(two & 0xffffu, two >> 16));
    }
  }
  atomicMax(&largest, __reduce_max_sync(kAll, mine));
  __syncthreads();
  // Biased exponents; a row with an infinity or NaN is left as it is, zero has any scale.
  const std::uint32_t exponent = largest >> 7;
  const std::uint32_t scale_exponent = exponent == 255 ? 127 : min(268 - exponent, 240u);
  const float scale = __uint_as_float(scale_exponent << 23);
  if (threadIdx.x == 0) {
    unscale[blockIdx.x] = __uint_as_float((254 - scale_exponent) << 23) * kHalfCodeUnscale;
  }
  constexpr std::uint32_t kHigh = 0xffff0000u;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const uint4 v = z[i];
    out[i] = {to_half(v.x << 16, v.z << 16, scale), to_half(v.x & kHigh, v.z & kHigh, scale),
              to_half(v.y << 16, v.w << 16, scale), to_half(v.y & kHigh, v.w & kHigh, scale)};
  }
}

// The power of two that takes SiTU's bound to at most 2^14.
float hidden_scale(const Activation& activation) {
  int exponent = 0;
  std::frexp(activation.beta * activation.linear_beta, &exponent);
  return std::ldexp(1.0f, 14 - exponent);
}

}  // namespace

std::size_t half_rows_bytes(const GroupedExperts& experts) {
  return Scratch::bytes_of<__half>(experts.rows * experts.width) +
         Scratch::bytes_of<float>(experts.rows) +
         Scratch::bytes_of<__half>(experts.groups.num_pairs * experts.inner);
}

HalfRows make_half_rows(Context& context, const GroupedExperts& experts) {
  auto* z = context.scratch.take<__half>(experts.rows * experts.width);
  auto* unscale = context.scratch.take<float>(experts.rows);
  auto* hidden = context.scratch.take<__half>(experts.groups.num_pairs * experts.inner);
  launch({.name = "expert_mlp: arrange",
          .grid = dim3(static_cast<unsigned>(experts.rows)),
          .block = dim3(256),
          .stream = context.stream,
          .overlap = true},
         arrange, static_cast<const uint4*>(experts.z), static_cast<int>(experts.width / 8),
         reinterpret_cast<uint4*>(z), unscale);
  return {z, unscale, hidden, hidden_scale(experts.activation)};
}

void finish_hidden(Context& context, const GroupedExperts& experts, const HalfRows& rows) {
  if (!experts.fp8_rows) return;
  round_fp8_rows(context, whole_rows(experts.groups.num_pairs, experts.inner), rows.hidden,
                 rows.hidden);
}

}  // namespace baltoro::cuda
