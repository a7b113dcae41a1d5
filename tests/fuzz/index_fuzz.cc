// An index of any bytes: each tensor names a plain file of the list, or a typed error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "baltoro/error.h"
#include "io/checkpoint_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto index = baltoro::parse_safetensors_index(text, "model.safetensors.index.json");
    for (const auto& [name, file] : index.file_of_tensor) {
      if (file >= index.files.size()) std::abort();
    }
    for (const std::string& file : index.files) {
      if (file.empty() || file == ".." || file.find('/') != std::string::npos) std::abort();
    }
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel) std::abort();
  }
  return 0;
}
