#include "io/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace baltoro {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorToWrite>& tensors)
    : path_(path), file_(path) {
  std::string text = "{";
  for (const TensorToWrite& tensor : tensors) {
    const auto dims =
        std::span(tensor.shape.dim).first(static_cast<std::size_t>(tensor.shape.rank));
    text +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                    text.size() > 1 ? "," : "", nlohmann::json(tensor.name).dump(),
                    dtype_name(tensor.dtype), fmt::join(dims, ","), left_, left_ + tensor.bytes());
    left_ += tensor.bytes();
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  BALTORO_CHECK(data.size() <= left_, "{} bytes beyond the declared tensors of {}",
                data.size() - left_, path_.string());
  file_.write(data);
  left_ -= data.size();
}

void SafetensorsWriter::skip(std::uint64_t bytes) {
  BALTORO_CHECK(bytes <= left_, "{} bytes beyond the declared tensors of {}", bytes - left_,
                path_.string());
  file_.skip(bytes);
  left_ -= bytes;
}

void SafetensorsWriter::finish() {
  BALTORO_CHECK(left_ == 0, "{} bytes of {} were not written", left_, path_.string());
  file_.finish();
}

}  // namespace baltoro
