#include "core/buffer.h"

#include <sys/mman.h>

#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void unmap(void* data, std::size_t bytes) noexcept { munmap(data, bytes); }

}  // namespace

Buffer::Buffer(std::size_t bytes, const char* purpose) : bytes_(bytes), release_(unmap) {
  if (bytes == 0) return;
  // Anonymous maps are zeroed lazily, page aligned, and can become huge pages; small ones cost one
  // page.
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    fail(ErrorCode::kOutOfMemory, "{}: cannot allocate {} bytes of host memory", purpose, bytes);
  }
  if (bytes >= kHugePageBytes) madvise(map, bytes, MADV_HUGEPAGE);
  data_ = map;
}

Buffer::~Buffer() {
  if (data_ != nullptr) release_(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(other.release_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

}  // namespace baltoro
