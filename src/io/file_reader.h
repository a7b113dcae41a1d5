// A read-only file: positioned reads that survive short reads and signals, or one map of the whole.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace baltoro {

// Reads up to `bytes` at `offset` like pread(2): the count read, 0 at the end, -1 with errno.
using PositionedRead = std::function<ssize_t(void* into, std::size_t bytes, std::uint64_t offset)>;

// Fills `into` from `offset` on by repeated reads: EINTR and short reads are repeated; any other
// failure or the end of the file throws Error{kIo} naming `where`, the offset and the reason.
void read_fully(const PositionedRead& read, std::uint64_t offset, std::span<std::byte> into,
                const std::filesystem::path& where);

// Immutable after construction but for map(); read() may be called by many threads at once.
class FileReader {
 public:
  // Throws Error{kIo} unless `path` is a regular file that can be opened.
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&& other) noexcept;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }

  // Bytes [offset, offset + into.size()). Throws Error{kIo}.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

  // The whole file, mapped on the first call (one thread at a time) and until destruction. The file
  // must not shrink meanwhile: touching a page beyond its end raises SIGBUS.
  std::span<const std::byte> map();
  // The first byte of the map; null before map().
  const std::byte* mapped() const noexcept { return static_cast<const std::byte*>(map_); }

  int fd() const noexcept { return fd_; }
  // The size now: it differs from size() where another process changed the file.
  std::uint64_t current_size() const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  void* map_ = nullptr;
};

// The text of a file of at most `limit` bytes. Throws Error{kIo} when it cannot be read,
// Error{kBadModel} when it is larger.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace baltoro
