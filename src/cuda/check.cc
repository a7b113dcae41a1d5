#include "cuda/check.h"

#include "core/error.h"

namespace baltoro::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that can be recovered from must not meet the next call
  const auto code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  fail(code, "CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

void unsupported(const char* op, const char* why) {
  fail(ErrorCode::kUnsupported, "CUDA: {}: {}", op, why);
}

}  // namespace baltoro::cuda
