// Kernels that are launched with Launch::overlap may start before the kernel ahead of them on the
// stream has ended (compute capability 9.0): they read what it does not write, such as weights, then
// wait for it.
#pragma once

namespace baltoro::cuda {

// Lets the next kernel start as soon as all blocks of this one have.
__device__ __forceinline__ void start_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when all work ahead on the stream is done and visible. A kernel with Launch::overlap calls
// it in every thread before it reads or writes what others do.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace baltoro::cuda
