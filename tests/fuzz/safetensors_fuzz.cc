// A safetensors header of any bytes: tensors that lie inside the file, apart from each other, or a
// typed error. The first two bytes choose the size of the data part.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "baltoro/error.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] + 256u * data[1];
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::uint64_t begin = 8 + text.size();
  try {
    const auto header =
        baltoro::parse_safetensors_header(text, begin, begin + data_bytes, "model.safetensors");
    std::uint64_t bytes = 0;
    std::uint64_t end = begin;
    for (const baltoro::TensorInfo& tensor : header.tensors) {
      if (tensor.bytes > 0 && tensor.offset < end) std::abort();
      end = tensor.offset + tensor.bytes;
      if (end > begin + data_bytes) std::abort();
      bytes += tensor.bytes;
    }
    for (const baltoro::DataHole& hole : header.holes) bytes += hole.bytes;
    if (bytes != data_bytes) std::abort();
  } catch (const baltoro::Error& error) {
    if (error.code() != baltoro::ErrorCode::kBadModel) std::abort();
  }
  return 0;
}
