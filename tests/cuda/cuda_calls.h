// Counts calls of the CUDA runtime: the linker sends those of the whole program through here
// (tests/cuda/CMakeLists.txt), so that no call site can be forgotten.
#pragma once

#include <cstddef>

namespace baltoro {

struct CudaCalls {
  int allocations = 0;         // and releases, of device and of page-locked memory, and graphs made
  int waits = 0;               // for the device, copies that imply it included
  std::size_t free_bytes = 0;  // of the device, at the end
};

// Calls of all threads from construction on.
class CudaCallCounter {
 public:
  CudaCallCounter();
  ~CudaCallCounter();
  CudaCallCounter(const CudaCallCounter&) = delete;
  CudaCallCounter& operator=(const CudaCallCounter&) = delete;

  CudaCalls calls() const;
};

std::size_t free_device_bytes();

}  // namespace baltoro
