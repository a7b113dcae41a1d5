// Working memory of the CUDA ops. It grows on first use of a size; what it gave before stays valid,
// because recorded graphs hold its addresses. Content is left over from earlier ops: an op may read
// only what it wrote, and the next op may write over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"

namespace baltoro::cuda {

class Scratch {
 public:
  static constexpr std::size_t kAlign = 256;

  // An op says what it needs by one begin() with the sum of its pieces (see bytes_of), then takes
  // them.
  void begin(std::size_t bytes);
  template <typename T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(bytes_of<T>(count)));
  }
  template <typename T>
  static constexpr std::size_t bytes_of(std::int64_t count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }

 private:
  void* take_bytes(std::size_t bytes);

  std::vector<Buffer> blocks_;  // the last is in use
  std::size_t used_ = 0;
};

}  // namespace baltoro::cuda
