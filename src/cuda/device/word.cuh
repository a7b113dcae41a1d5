// The words of a vector by index, in registers where the index is known to the compiler.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

}  // namespace baltoro::cuda
