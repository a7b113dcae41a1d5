#include "io/verify.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "io/crc32.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;

enum class Kind { kFloat32, kBf16, kF16, kPackedCodes, kInt8Codes, kScales, kOther };

Kind kind_of(const TensorInfo& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return Kind::kFloat32;
    case DType::kBf16:
      return Kind::kBf16;
    case DType::kF16:
      return Kind::kF16;
    case DType::kU8:
      if (tensor.name.ends_with(".weight_packed")) return Kind::kPackedCodes;
      return tensor.name.ends_with(".weight_scale") ? Kind::kScales : Kind::kOther;
    case DType::kI8:
      return Kind::kInt8Codes;
    case DType::kI32:
    case DType::kE4m3:
      break;
  }
  return Kind::kOther;
}

// Scans blocks of one tensor; `element` numbers continue from block to block.
class Scanner {
 public:
  Scanner(Kind kind, TensorCheck& check) : kind_(kind), check_(check) {}

  void block(std::span<const std::byte> bytes) {
    check_.crc32 = crc32(bytes, check_.crc32);
    switch (kind_) {
      case Kind::kFloat32:
        return floats<std::uint32_t>(bytes, 0x7f800000u, 0x007fffffu);
      case Kind::kBf16:
        return floats<std::uint16_t>(bytes, 0x7f80u, 0x007fu);
      case Kind::kF16:
        return floats<std::uint16_t>(bytes, 0x7c00u, 0x03ffu);
      case Kind::kPackedCodes:
        // Bit 3 of a code is its sign: 0x77 masks both magnitudes.
        return codes(bytes, std::byte{0x77});
      case Kind::kInt8Codes:
        return codes(bytes, std::byte{0xff});
      case Kind::kScales:
        return scales(bytes);
      case Kind::kOther:
        return;
    }
  }

  bool all_zero() const { return zero_ && kind_ != Kind::kScales && kind_ != Kind::kOther; }

 private:
  template <typename Word>
  void floats(std::span<const std::byte> bytes, std::uint32_t exponent, std::uint32_t mantissa) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word), ++element_) {
      Word bits = 0;
      std::memcpy(&bits, &bytes[at], sizeof(Word));
      if ((bits & (exponent | mantissa)) != 0) zero_ = false;
      if ((bits & exponent) != exponent) continue;
      note_bad();
      ++((bits & mantissa) != 0 ? check_.num_nan : check_.num_inf);
    }
  }

  // `magnitude`: the bits of a byte that are all 0 where its values are 0.
  void codes(std::span<const std::byte> bytes, std::byte magnitude) {
    zero_ = zero_ && std::all_of(bytes.begin(), bytes.end(), [magnitude](std::byte b) {
              return (b & magnitude) == std::byte{0};
            });
  }

  void scales(std::span<const std::byte> bytes) {
    for (std::byte scale : bytes) {
      if (scale == std::byte{255}) {
        note_bad();
        ++check_.num_bad_scales;
      }
      ++element_;
    }
  }

  void note_bad() {
    if (check_.num_nan + check_.num_inf + check_.num_bad_scales == 0) check_.first_bad = element_;
  }

  Kind kind_;
  TensorCheck& check_;
  std::uint64_t element_ = 0;
  bool zero_ = true;
};

TensorCheck check_tensor(const CheckpointFiles& files, std::uint32_t index,
                         std::vector<std::byte>& block) {
  const TensorInfo& tensor = files.tensors()[index];
  TensorCheck check;
  check.tensor = index;
  Scanner scanner(kind_of(tensor), check);
  for (std::uint64_t at = 0; at < tensor.bytes; at += kBlockBytes) {
    block.resize(std::min(kBlockBytes, tensor.bytes - at));
    files.files()[tensor.file].read(tensor.offset + at, block);
    scanner.block(block);
  }
  check.all_zero = scanner.all_zero();
  check.zero_expert = check.all_zero && tensor.name.find(".experts.") != std::string::npos;
  return check;
}

}  // namespace

std::vector<TensorCheck> verify_tensors(const CheckpointFiles& files,
                                        const TensorVerifyOptions& options) {
  const auto count = static_cast<std::uint32_t>(files.tensors().size());
  std::vector<TensorCheck> checks(count);
  std::atomic<std::uint32_t> next{0};
  std::mutex mutex;
  std::uint64_t done = 0;
  std::exception_ptr error;
  const auto work = [&] {
    std::vector<std::byte> block;
    for (;;) {
      const std::uint32_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        checks[i] = check_tensor(files, i, block);
        const std::lock_guard lock(mutex);
        if (error) return;
        done += files.tensors()[i].bytes;
        if (options.progress) options.progress(done, files.total_bytes());
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        return;
      }
    }
  };
  std::vector<std::jthread> team;
  for (int i = 1; i < std::clamp(options.num_threads, 1, 256); ++i) team.emplace_back(work);
  work();
  team.clear();
  if (error) std::rethrow_exception(error);
  return checks;
}

}  // namespace baltoro
