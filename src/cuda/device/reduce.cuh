// Sums and maxima over a warp or a block, in a fixed order.
#pragma once

namespace baltoro::cuda {

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

// The sum over the block, in every thread. `slots`: 32 floats of shared memory that nobody else
// uses between two barriers.
__device__ __forceinline__ float block_sum(float value, float* slots) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < warps; ++w) sum += slots[w];
  return sum;
}

// The same of the largest.
__device__ __forceinline__ unsigned block_max(unsigned value, float* slots) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  value = __reduce_max_sync(0xffffffffu, value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = __uint_as_float(value);
  __syncthreads();
  unsigned largest = 0;
  for (int w = 0; w < warps; ++w) largest = max(largest, __float_as_uint(slots[w]));
  return largest;
}

}  // namespace baltoro::cuda
