// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace baltoro {

// Written as NAME.partial, renamed by finish(), removed where that is not reached: a full disk never
// leaves half a file behind the name. One thread at a time.
class OutputFile {
 public:
  // Throws Error{kIo}, as all others here do, naming the file and the reason.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends.
  void write(std::span<const std::byte> bytes);
  // Appends zeros that take no room on the disk, where its file system can do that.
  void skip(std::uint64_t bytes);
  // Flushes to the disk and gives the file its name, in place of what had it. Call once, at the end.
  void finish();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  bool finished_ = false;
};

// A whole file of text. Throws Error{kIo}.
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Bytes that may be written to the disk of `path`, which need not exist yet.
std::uint64_t disk_space(const std::filesystem::path& path);
// Throws Error{kDoesNotFit} where `bytes` are more than disk_space(path).
void require_disk_space(const std::filesystem::path& path, std::uint64_t bytes);

}  // namespace baltoro
