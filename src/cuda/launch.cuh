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
  // The kernel waits for what is ahead on the stream itself (device/overlap.cuh).
  bool overlap = false;
  // Blocks along y that run on SMs close to each other, at the same time (a cluster); more than one
  // only where can_overlap().
  unsigned near_y = 1;
};

// BALTORO_CUDA_SYNC=1 waits for each kernel, so that an error names the one that made it.
inline bool synchronous_launches() {
  static const bool value = [] {
    const char* text = std::getenv("BALTORO_CUDA_SYNC");
    return text != nullptr && text[0] == '1';
  }();
  return value;
}

// Whether a kernel runs as code for compute capability 9.0 or above; what the driver makes of PTX
// for an older one has no instruction to wait with.
template <typename Kernel>
bool can_overlap(Kernel* kernel, const char* name) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), name);
  return attributes.ptxVersion >= 90;
}

// Kernels for every device ask for no more shared memory than each has for a block (compute
// capability 8.6); those for 9.0a may have more.
template <typename Kernel>
void allow_shared(Kernel* kernel, std::size_t bytes, const char* name) {
  constexpr std::size_t kEveryDevice = 99 << 10;
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), name);
  if (attributes.ptxVersion != 90 && bytes + attributes.sharedSizeBytes > kEveryDevice) {
    unsupported(name, "its kernel asks for more than 99 KiB of shared memory");
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        name);
}

template <typename... Params, typename... Args>
void launch(const Launch& how, void (*kernel)(Params...), Args&&... args) {
  constexpr std::size_t kDefaultLimit = 32 << 10;  // and 16 KB for what a kernel declares itself
  if (how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0) return;
  if (how.shared_bytes > kDefaultLimit) allow_shared(kernel, how.shared_bytes, how.name);
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (how.overlap && can_overlap(kernel, how.name)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (how.near_y > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {1, how.near_y, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = how.block;
  config.dynamicSmemBytes = how.shared_bytes;
  config.stream = how.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), how.name);
  if (synchronous_launches()) check(cudaStreamSynchronize(how.stream), how.name);
}

inline unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

}  // namespace baltoro::cuda
