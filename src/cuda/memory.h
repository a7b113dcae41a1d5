// Device memory and pinned host memory as Buffers.
#pragma once

#include <cstddef>

#include "core/buffer.h"

namespace baltoro::cuda {

// Zero-filled memory of the current device. Throws Error{kOutOfMemory} that names `purpose`, the
// bytes asked for and the bytes free.
Buffer device_buffer(std::size_t bytes, const char* purpose);

// Zero-filled, page-locked host memory that the device reads and writes at the same address.
Buffer pinned_buffer(std::size_t bytes, const char* purpose);

// Whether the address is of device memory.
bool on_device(const void* address);

}  // namespace baltoro::cuda
