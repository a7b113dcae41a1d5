// Asynchronous copies of whole tiles between global and shared memory, and the barriers that they
// complete on (PTX ISA, cp.async.bulk and mbarrier). Needs compute capability 9.0.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
// Makes initialised barriers visible to the copy engine; a block barrier follows.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// One arrival, and the barrier also waits for `bytes` of copies.
__device__ __forceinline__ void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Until the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// By one thread; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
// What threads wrote to shared memory becomes visible to the copy engine: each writer calls this
// before the block barrier that precedes the copy.
__device__ __forceinline__ void bulk_store_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// By one thread; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_store_begin(void* to, const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the sources of all but the kPending newest of the thread's stores may be reused or go away.
template <int kPending>
__device__ __forceinline__ void bulk_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, std::uint32_t bytes) {
  bulk_store_begin(to, from, bytes);
  bulk_stores_read<0>();
}

}  // namespace baltoro::cuda
