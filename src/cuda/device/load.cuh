// Loads of what is read once: past L1, so that other data stay there.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ uint4 load_stream(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

}  // namespace baltoro::cuda
