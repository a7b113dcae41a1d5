// The one place that launches kernels: sets the shared-memory limit where it is above the default,
// launches, and checks.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "cuda/check.h"

namespace baltoro::cuda {

struct Launch {
  const char* name;  // for errors
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// BALTORO_CUDA_SYNC=1 waits for each kernel, so that an error names the one that made it.
inline bool synchronous_launches() {
  static const bool value = [] {
    const char* text = std::getenv("BALTORO_CUDA_SYNC");
    return text != nullptr && text[0] == '1';
  }();
  return value;
}

template <typename... Params, typename... Args>
void launch(const Launch& how, void (*kernel)(Params...), Args&&... args) {
  constexpr std::size_t kDefaultLimit = 48 << 10;
  if (how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0) return;
  if (how.shared_bytes > kDefaultLimit) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(how.shared_bytes)),
          how.name);
  }
  kernel<<<how.grid, how.block, how.shared_bytes, how.stream>>>(std::forward<Args>(args)...);
  check(cudaGetLastError(), how.name);
  if (synchronous_launches()) check(cudaStreamSynchronize(how.stream), how.name);
}

inline unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

}  // namespace baltoro::cuda
