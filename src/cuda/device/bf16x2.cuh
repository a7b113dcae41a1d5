// Pairs of bf16 in a 32-bit word.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ std::uint32_t bf16x2_mul(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  // -0 as addend keeps the sign of a zero.
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}

}  // namespace baltoro::cuda
