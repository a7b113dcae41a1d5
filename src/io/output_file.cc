#include "io/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace baltoro {
namespace {

[[noreturn]] void fail_write(const std::filesystem::path& path, int error) {
  fail(ErrorCode::kIo, "{}: cannot be written: {}; make room or choose another place",
       path.string(), std::generic_category().message(error));
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), partial_(path.string() + ".partial") {
  file_.reset(std::fopen(partial_.c_str(), "wb"));
  if (!file_) fail_write(path_, errno);
}

OutputFile::~OutputFile() {
  if (finished_) return;
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // its pointer may be null
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    fail_write(path_, errno);
  }
}

void OutputFile::skip(std::uint64_t bytes) {
  const bool skipped = std::fflush(file_.get()) == 0 &&
                       fseeko(file_.get(), static_cast<off_t>(bytes), SEEK_CUR) == 0 &&
                       ftruncate(fileno(file_.get()), ftello(file_.get())) == 0;
  if (!skipped) fail_write(path_, errno);
}

void OutputFile::finish() {
  // The name must not outlive the data after a power failure.
  const bool flushed = std::fflush(file_.get()) == 0 && fsync(fileno(file_.get())) == 0;
  if (!flushed) fail_write(path_, errno);
  if (std::fclose(file_.release()) != 0) fail_write(path_, errno);
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) fail_write(path_, error.value());
  finished_ = true;
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

std::uint64_t disk_space(const std::filesystem::path& path) {
  std::filesystem::path existing = std::filesystem::absolute(path);
  while (!std::filesystem::exists(existing)) existing = existing.parent_path();
  return std::filesystem::space(existing).available;
}

void require_disk_space(const std::filesystem::path& path, std::uint64_t bytes) {
  const std::uint64_t free = disk_space(path);
  if (bytes <= free) return;
  fail(ErrorCode::kDoesNotFit,
       "{}: {} bytes are to be written, {} are free on its disk; make room or choose another place",
       path.string(), bytes, free);
}

}  // namespace baltoro
