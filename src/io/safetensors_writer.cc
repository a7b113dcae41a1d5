#include "io/safetensors_writer.h"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.h"

namespace baltoro {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorToWrite>& tensors)
    : path_(path), partial_(path.string() + ".partial") {
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
  file_.reset(std::fopen(partial_.c_str(), "wb"));
  if (!file_) io_error("cannot create");
  const std::uint64_t length = text.size();
  const bool ok = std::fwrite(&length, sizeof(length), 1, file_.get()) == 1 &&
                  std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (!ok) io_error("writing the header failed");
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void SafetensorsWriter::io_error(const char* what) const {
  const std::string reason = std::generic_category().message(errno);
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
  fail(ErrorCode::kIo, "{}: {}: {}", path_.string(), what, reason);
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  BALTORO_CHECK(data.size() <= left_, "{} bytes beyond the declared tensors of {}",
                data.size() - left_, path_.string());
  if (std::fwrite(data.data(), 1, data.size(), file_.get()) != data.size()) {
    io_error("writing failed");
  }
  left_ -= data.size();
}

void SafetensorsWriter::finish() {
  BALTORO_CHECK(left_ == 0, "{} bytes of {} were not written", left_, path_.string());
  if (std::fclose(file_.release()) != 0) io_error("writing failed");
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
  fail(ErrorCode::kIo, "{}: cannot rename: {}", partial_.string(), error.message());
}

}  // namespace baltoro
