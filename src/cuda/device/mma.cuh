// Warp-level matrix instructions on bf16 and f16 fragments (PTX ISA, mma.m16n8k16 and ldmatrix).
// With g = lane / 4 and t = lane % 4, a fragment holds
//   A [16, 16]: x (row g, k 2t..), y (row g + 8, k 2t..), z (row g, k 2t + 8..), w (row g + 8, ...)
//   B [16, 8]:  two registers: (k 2t.., column g), (k 2t + 8.., column g)
//   C [16, 8]:  x, y (row g, columns 2t, 2t + 1), z, w (row g + 8)
// so that a C pair packed to 16 bits is one half of an A.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ void mma_bf16(float4& c, uint4 a, std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_f16(float4& c, uint4 a, std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit values; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ uint4 load_matrices(std::uint32_t row) {
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(row));
  return r;
}
__device__ __forceinline__ uint4 load_matrices_transposed(std::uint32_t row) {
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(row));
  return r;
}
// The same of a pointer.
__device__ __forceinline__ uint4 load_matrices(const void* row) {
  return load_matrices(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)));
}
__device__ __forceinline__ uint4 load_matrices_transposed(const void* row) {
  return load_matrices_transposed(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)));
}
// The other way (compute capability 9.0).
__device__ __forceinline__ void store_matrices(std::uint32_t row, uint4 r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(r.x),
               "r"(r.y), "r"(r.z), "r"(r.w)
               : "memory");
}
// An 8 x 8 matrix of 16-bit values across the warp, transposed.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t value) {
  std::uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(value));
  return r;
}

__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ std::uint32_t pack_f16(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float2 unpack_bf16(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

}  // namespace baltoro::cuda
