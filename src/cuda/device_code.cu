#include <cuda_runtime.h>

#include "cuda/check.h"
#include "cuda/device_code.h"

namespace baltoro::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

int device_code() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, any_kernel), "look at the kernels for this device");
  return attributes.ptxVersion;
}

}  // namespace baltoro::cuda
