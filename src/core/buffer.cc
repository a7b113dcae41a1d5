#include "core/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void unmap(void* data, std::size_t bytes) noexcept { munmap(data, bytes); }

void* map(std::size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// From a huge page's boundary on: the system sees to that for some sizes alone, and what lies before
// the first boundary would be small pages.
void* map_huge(std::size_t bytes) {
  void* const whole = map(bytes + kHugePageBytes);
  if (whole == MAP_FAILED) return whole;
  auto* const begin = static_cast<std::byte*>(whole);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(whole) % kHugePageBytes;
  const std::size_t used = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + used, kHugePageBytes - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, const char* purpose) : bytes_(bytes), release_(unmap) {
  if (bytes == 0) return;
  // Anonymous maps are zeroed lazily, page aligned, and can become huge pages; small ones cost one
  // page.
  void* const data = bytes >= kHugePageBytes ? map_huge(bytes) : map(bytes);
  if (data == MAP_FAILED) {
    fail(ErrorCode::kOutOfMemory, "{}: cannot allocate {} bytes of host memory", purpose, bytes);
  }
  data_ = data;
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
