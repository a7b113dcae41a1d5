#include "io/file_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

// Linux moves at most 0x7ffff000 bytes in one call.
constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

void read_fully(const PositionedRead& read, std::uint64_t offset, std::span<std::byte> into,
                const std::filesystem::path& where) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        read(into.data() + done, std::min(into.size() - done, kMaxReadBytes), offset + done);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(ErrorCode::kIo, "{}: reading {} bytes at offset {} failed: {}; check the disk",
           where.string(), into.size() - done, offset + done, reason(errno));
    }
    if (got == 0) {
      fail(ErrorCode::kIo,
           "{}: the file ends at offset {}, {} bytes before the end of the read; it was cut short "
           "meanwhile: write or fetch it again",
           where.string(), offset + done, into.size() - done);
    }
    done += static_cast<std::size_t>(got);
  }
}

FileReader::FileReader(const std::filesystem::path& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(ErrorCode::kIo, "{}: cannot be opened: {}", path.string(), reason(errno));
  struct stat info = {};
  const int error = fstat(fd_, &info) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    fail(ErrorCode::kIo, "{}: cannot be read: {}", path.string(),
         error != 0 ? reason(error) : "not a regular file");
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

FileReader::~FileReader() {
  if (map_ != nullptr) munmap(map_, size_);
  if (fd_ >= 0) close(fd_);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(std::exchange(other.size_, 0)),
      map_(std::exchange(other.map_, nullptr)) {}

FileReader& FileReader::operator=(FileReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(map_, other.map_);
  return *this;
}

std::uint64_t FileReader::current_size() const {
  struct stat info = {};
  return fstat(fd_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

void FileReader::read(std::uint64_t offset, std::span<std::byte> into) const {
  read_fully([this](void* to, std::size_t bytes,
                    std::uint64_t at) { return pread(fd_, to, bytes, static_cast<off_t>(at)); },
             offset, into, path_);
}

std::span<const std::byte> FileReader::map() {
  if (map_ == nullptr && size_ > 0) {
    void* map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    if (map == MAP_FAILED) {
      fail(ErrorCode::kIo, "{}: cannot map {} bytes: {}", path_.string(), size_, reason(errno));
    }
    map_ = map;
  }
  return {static_cast<const std::byte*>(map_), size_};
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const FileReader file(path);
  if (file.size() > limit) {
    fail(ErrorCode::kBadModel, "{}: {} bytes exceed the limit of {} for such a file", path.string(),
         file.size(), limit);
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace baltoro
