// Copies from global to shared memory that a thread need not wait for (compute capability 8.0).
#pragma once

#include <cstdint>

namespace baltoro::cuda {

// 16 bytes, both addresses so aligned; zeros where not `inside`, and nothing is read there.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
               "r"(inside ? 16 : 0)
               : "memory");
}

// Ends a group of copies of this thread.
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace baltoro::cuda
