#include "cuda/memory.h"

#include <cstring>

#include "core/error.h"
#include "core/gib.h"
#include "cuda/check.h"

namespace baltoro::cuda {
namespace {

void release_device(void* data, std::size_t) noexcept { cudaFree(data); }
void release_pinned(void* data, std::size_t) noexcept { cudaFreeHost(data); }

}  // namespace

Buffer device_buffer(std::size_t bytes, const char* purpose) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the free device memory");
    fail(ErrorCode::kOutOfMemory,
         "{}: cannot allocate {:.2f} GiB of GPU memory: {:.2f} of {:.2f} GiB are free; use a "
         "shorter "
         "context, a smaller --batch-rows, or --device cpu",
         purpose, gib(bytes), gib(free_bytes), gib(total_bytes));
  }
  check(status, purpose);
  Buffer buffer(data, bytes, release_device);
  check(cudaMemset(data, 0, bytes), purpose);
  // It runs on the default stream, for which the backend's own does not wait.
  check(cudaStreamSynchronize(nullptr), purpose);
  return buffer;
}

Buffer pinned_buffer(std::size_t bytes, const char* purpose) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), purpose);
  Buffer buffer(data, bytes, release_pinned);
  std::memset(data, 0, bytes);
  return buffer;
}

bool on_device(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address), "ask where memory is");
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace baltoro::cuda
