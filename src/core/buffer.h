// Owned memory: of the host (64-byte aligned, huge pages asked for where they help), or of a device
// that says how to release it. Move-only, immutable size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor_view.h"

namespace baltoro {

class Buffer {
 public:
  Buffer() = default;
  // Throws Error{kOutOfMemory} naming `purpose` and the bytes asked for. The memory is zero-filled.
  Buffer(std::size_t bytes, const char* purpose);
  // Takes over memory of a device.
  using Release = void (*)(void* data, std::size_t bytes) noexcept;
  Buffer(void* data, std::size_t bytes, Release release) noexcept
      : data_(data), bytes_(bytes), release_(release) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() noexcept { return data_; }
  const void* data() const noexcept { return data_; }
  float* f32() noexcept { return static_cast<float*>(data_); }
  const float* f32() const noexcept { return static_cast<const float*>(data_); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_ = nullptr;
};

}  // namespace baltoro
