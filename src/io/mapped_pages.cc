#include "io/mapped_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace baltoro {
namespace {

// The system reads at most its read-ahead window for one request and forgets the rest: 128 KiB is
// the smallest window in use.
constexpr std::uint64_t kRequestBytes = std::uint64_t{128} << 10;

struct Pages {
  std::byte* begin;  // null where the file is not mapped
  std::uint64_t offset;
  std::uint64_t bytes;
};

Pages pages_of(const FileRange& range) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t first = range.offset / page * page;
  const std::uint64_t end = (range.offset + range.bytes + page - 1) / page * page;
  // madvise takes the address of a writable page, though nothing is written.
  auto* map = const_cast<std::byte*>(range.file->mapped());
  return {map == nullptr ? nullptr : map + first, first, end - first};
}

}  // namespace

std::uint64_t page_bytes(const FileRange& range) { return pages_of(range).bytes; }

void read_exactly(const FileReader& file) {
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM);
  if (file.mapped() != nullptr) {
    madvise(const_cast<std::byte*>(file.mapped()), file.size(), MADV_RANDOM);
  }
}

void start_reading(const FileRange& range) {
  const Pages pages = pages_of(range);
  for (std::uint64_t at = 0; at < pages.bytes; at += kRequestBytes) {
    madvise(pages.begin + at, std::min(kRequestBytes, pages.bytes - at), MADV_WILLNEED);
  }
}

void finish_reading(const FileRange& range) {
#ifdef MADV_POPULATE_READ
  const Pages pages = pages_of(range);
  while (madvise(pages.begin, pages.bytes, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return;
    const int error = errno;
    const std::uint64_t size = range.file->current_size();
    if (size < range.file->size()) {
      fail(ErrorCode::kIo,
           "{}: the file was cut from {} to {} bytes while the model runs from it; fetch it again",
           range.file->path().string(), range.file->size(), size);
    }
    fail(ErrorCode::kIo, "{}: bytes {} to {} cannot be read: {}; check the disk",
         range.file->path().string(), range.offset, range.offset + range.bytes,
         std::generic_category().message(error));
  }
#else
  static_cast<void>(range);
#endif
}

void drop_pages(const FileRange& range) {
  const Pages pages = pages_of(range);
  if (pages.begin != nullptr) madvise(pages.begin, pages.bytes, MADV_DONTNEED);
  posix_fadvise(range.file->fd(), static_cast<off_t>(pages.offset), static_cast<off_t>(pages.bytes),
                POSIX_FADV_DONTNEED);
}

}  // namespace baltoro
