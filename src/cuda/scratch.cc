#include "cuda/scratch.h"

#include "core/error.h"
#include "cuda/memory.h"

namespace baltoro::cuda {

void Scratch::begin(std::size_t bytes) {
  used_ = 0;
  if (!blocks_.empty() && blocks_.back().bytes() >= bytes) return;
  blocks_.push_back(device_buffer(bytes, "scratch of the CUDA ops"));
}

void* Scratch::take_bytes(std::size_t bytes) {
  BALTORO_CHECK(!blocks_.empty() && used_ + bytes <= blocks_.back().bytes(),
                "an op took more scratch than it had asked for");
  void* piece = static_cast<std::byte*>(blocks_.back().data()) + used_;
  used_ += bytes;
  return piece;
}

}  // namespace baltoro::cuda
