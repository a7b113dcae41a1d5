#include "cuda/cuda_calls.h"

#include <cuda_runtime_api.h>

#include <atomic>

namespace baltoro {
namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0}, waits{0};

void count(std::atomic<int>& what) {
  if (counting) ++what;
}

bool is_pageable(const void* address) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, address) != cudaSuccess ||
         attributes.type == cudaMemoryTypeUnregistered;
}

// What the driver takes over before the call returns is no wait: up to 64 KiB of pageable memory.
bool copy_waits(const void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kTakenOver = 64 << 10;
  return is_pageable(to) || (is_pageable(from) && bytes > kTakenOver);
}

}  // namespace

CudaCallCounter::CudaCallCounter() {
  allocations = 0;
  waits = 0;
  counting = true;
}
CudaCallCounter::~CudaCallCounter() { counting = false; }
CudaCalls CudaCallCounter::calls() const { return {allocations, waits, free_device_bytes()}; }

std::size_t free_device_bytes() {
  std::size_t free_bytes = 0, total_bytes = 0;
  return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? free_bytes : 0;
}

}  // namespace baltoro

// NAME(parameters) counts, then does what it did: `arguments` are the names of the parameters.
#define BALTORO_COUNT(what, name, parameters, arguments) \
  extern "C" cudaError_t __real_##name parameters;       \
  extern "C" cudaError_t __wrap_##name parameters;       \
  cudaError_t __wrap_##name parameters {                 \
    baltoro::count(baltoro::what);                       \
    return __real_##name arguments;                      \
  }

BALTORO_COUNT(allocations, cudaMalloc, (void** p, std::size_t n), (p, n))
BALTORO_COUNT(allocations, cudaMallocHost, (void** p, std::size_t n), (p, n))
BALTORO_COUNT(allocations, cudaHostAlloc, (void** p, std::size_t n, unsigned f), (p, n, f))
BALTORO_COUNT(allocations, cudaHostRegister, (void* p, std::size_t n, unsigned f), (p, n, f))
BALTORO_COUNT(allocations, cudaMallocAsync, (void** p, std::size_t n, cudaStream_t s), (p, n, s))
BALTORO_COUNT(allocations, cudaFree, (void* p), (p))
BALTORO_COUNT(allocations, cudaFreeHost, (void* p), (p))
BALTORO_COUNT(allocations, cudaFreeAsync, (void* p, cudaStream_t s), (p, s))
BALTORO_COUNT(allocations, cudaGraphInstantiate,
              (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), (e, g, f))
BALTORO_COUNT(waits, cudaStreamSynchronize, (cudaStream_t s), (s))
BALTORO_COUNT(waits, cudaEventSynchronize, (cudaEvent_t e), (e))
BALTORO_COUNT(waits, cudaDeviceSynchronize, (), ())
BALTORO_COUNT(waits, cudaMemcpy, (void* to, const void* from, std::size_t n, cudaMemcpyKind k),
              (to, from, n, k))
BALTORO_COUNT(waits, cudaMemset, (void* to, int value, std::size_t n), (to, value, n))

extern "C" cudaError_t __real_cudaMemcpyAsync(void* to, const void* from, std::size_t n,
                                              cudaMemcpyKind kind, cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, std::size_t n,
                                              cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  if (baltoro::counting && baltoro::copy_waits(to, from, n)) ++baltoro::waits;
  return __real_cudaMemcpyAsync(to, from, n, kind, stream);
}
