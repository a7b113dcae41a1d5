// Writes one safetensors file as a stream: the header first, then each tensor's bytes in the order
// of the list. The file appears under its name only when complete.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_view.h"

namespace baltoro {

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(shape.count()) * dtype_bytes(dtype);
  }
};

// One thread at a time.
class SafetensorsWriter {
 public:
  // Throws Error{kIo}.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Appends data; the pieces may cross tensors. Throws Error{kIo}, or Error{kInternal} beyond the
  // declared bytes.
  void write(std::span<const std::byte> data);
  // Flushes and gives the file its name. Throws Error{kInternal} when bytes are missing,
  // Error{kIo}.
  void finish();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  // Removes the unfinished file.
  [[noreturn]] void io_error(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t left_ = 0;
};

}  // namespace baltoro
