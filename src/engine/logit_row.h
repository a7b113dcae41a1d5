// The logits of a sequence's last token, in memory that the device fills: a row is neither copied nor
// walked between two steps.
#pragma once

#include <algorithm>
#include <span>

#include "core/buffer.h"
#include "ops/backend.h"

namespace baltoro {

class LogitRow {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::span<const float> values() const noexcept { return {memory_.f32(), size_}; }
  std::size_t bytes() const noexcept { return memory_.bytes(); }

  // Room for `size` values, unspecified, to be filled. Throws Error{kOutOfMemory}.
  std::span<float> fill(Backend& backend, std::size_t size) {
    const std::size_t bytes = size * sizeof(float);
    if (memory_.bytes() < bytes) memory_ = backend.allocate_shared(bytes, "logits");
    size_ = size;
    return {memory_.f32(), size};
  }
  void assign(Backend& backend, std::span<const float> values) {
    std::ranges::copy(values, fill(backend, values.size()).begin());
  }
  // Keeps the memory for the next row.
  void clear() noexcept { size_ = 0; }

 private:
  Buffer memory_;
  std::size_t size_ = 0;
};

}  // namespace baltoro
