// Writes one safetensors file as a stream: the header first, then each tensor's bytes in the order
// of the list. The file appears under its name only when complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_view.h"
#include "io/output_file.h"

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

  // Appends data; the pieces may cross tensors. Throws Error{kIo}, or Error{kInternal} beyond the
  // declared bytes.
  void write(std::span<const std::byte> data);
  // The same with zeros: OutputFile::skip.
  void skip(std::uint64_t bytes);
  // Flushes and gives the file its name. Throws Error{kInternal} when bytes are missing,
  // Error{kIo}.
  void finish();

 private:
  std::filesystem::path path_;
  OutputFile file_;
  std::uint64_t left_ = 0;
};

}  // namespace baltoro
