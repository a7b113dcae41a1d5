#include "engine/fingerprint.h"

#include <algorithm>
#include <vector>

namespace baltoro {
namespace {

constexpr std::uint64_t kHeadBytes = std::uint64_t{1} << 16;
// Tensors that are looked into, evenly spread over all: a fine-tuned model differs in nearly every
// one, and K3's half a million small reads would take minutes.
constexpr std::size_t kSampledTensors = 4096;
constexpr std::uint64_t kSampleBytes = 64;

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (std::byte b : bytes) {
      value_ = (value_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace

std::uint64_t fingerprint(std::string_view config_text, std::string_view variant,
                          const CheckpointFiles& files) {
  Hash hash;
  hash.add(config_text);
  hash.add(variant);
  std::vector<std::byte> bytes;
  for (const FileReader& file : files.files()) {
    hash.add(file.size());
    bytes.resize(std::min(kHeadBytes, file.size()));
    file.read(0, bytes);
    hash.add(bytes);
  }
  const std::vector<TensorInfo>& tensors = files.tensors();
  const std::size_t stride = tensors.size() / kSampledTensors + 1;
  for (std::size_t i = 0; i < tensors.size(); i += stride) {
    const TensorInfo& tensor = tensors[i];
    bytes.resize(std::min(kSampleBytes, tensor.bytes));
    files.files()[tensor.file].read(tensor.offset + (tensor.bytes - bytes.size()) / 2, bytes);
    hash.add(tensor.name);
    hash.add(bytes);
  }
  return hash.value();
}

}  // namespace baltoro
