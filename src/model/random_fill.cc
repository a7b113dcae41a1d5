#include "model/random_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "core/rng.h"

namespace baltoro {
namespace {

// A prime number of 256-byte lines, about 8 MiB: rows of no matrix repeat in step.
constexpr std::size_t kPatternBytes = std::size_t{32749} * 256;

// Uniform in [-bound, bound).
std::vector<float> uniform(std::size_t count, float bound) {
  const Philox random(7, 11);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = bound * (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1);
  }
  return values;
}

std::vector<std::byte> pattern_of(WeightFormat format, float bound) {
  std::vector<std::byte> bytes(kPatternBytes);
  const Philox random(5, 13);
  if (format == WeightFormat::kF32) {
    const std::vector<float> values = uniform(kPatternBytes / 4, bound);
    std::memcpy(bytes.data(), values.data(), kPatternBytes);
  } else if (format == WeightFormat::kBf16 || format == WeightFormat::kF16) {
    const std::vector<float> values = uniform(kPatternBytes / 2, bound);
    for (std::size_t i = 0; i < values.size(); ++i) {
      // For F16 the bits of magnitudes between 2^-14 and 2^-7, which are near enough.
      const std::uint16_t bits = format == WeightFormat::kBf16
                                     ? f32_to_bf16(values[i])
                                     : static_cast<std::uint16_t>(random.block(i)[0] & 0x9fffu);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  } else {
    for (std::size_t i = 0; i < bytes.size(); i += 16) {
      const auto block = random.block(static_cast<std::uint64_t>(i));
      std::memcpy(bytes.data() + i, block.data(), 16);
    }
  }
  return bytes;
}

}  // namespace

Buffer RandomFill::upload(const void* data, std::size_t bytes) {
  Buffer buffer = backend_.allocate(bytes, "pattern of random weights");
  backend_.copy(buffer.data(), data, bytes);
  return buffer;
}

const Buffer& RandomFill::codes(const WeightView& view) {
  Buffer& buffer = codes_[{view.format, view.cols}];
  if (buffer.bytes() == 0) {
    const float bound = 1.7f / std::sqrt(static_cast<float>(view.cols));
    const std::vector<std::byte> pattern = pattern_of(view.format, bound);
    buffer = upload(pattern.data(), pattern.size());
  }
  return buffer;
}

// The codes' standard deviation is about 3 (MXFP4) or 37 (MXINT8, in 64ths: 0.58).
const Buffer& RandomFill::scales(const WeightView& view) {
  Buffer& buffer = scales_[{view.format, view.cols}];
  if (buffer.bytes() == 0) {
    const float deviation = view.format == WeightFormat::kMxfp4 ? 3.0f : 0.58f;
    const float target = 1 / (std::sqrt(static_cast<float>(view.cols)) * deviation);
    const int exponent = 127 + static_cast<int>(std::lround(std::log2(target)));
    const Philox random(3, 17);
    std::vector<std::uint8_t> pattern(kPatternBytes / 16);
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      pattern[i] = static_cast<std::uint8_t>(exponent - static_cast<int>(random.block(i)[0] & 1u));
    }
    buffer = upload(pattern.data(), pattern.size());
  }
  return buffer;
}

void RandomFill::repeat(const Buffer& pattern, void* to, std::int64_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  for (auto left = static_cast<std::size_t>(bytes); left > 0;) {
    const std::size_t part = std::min(left, pattern.bytes());
    backend_.copy(at, pattern.data(), part);
    at += part;
    left -= part;
  }
}

void RandomFill::fill(const WeightView& view) {
  // The view points to memory that is being written; it is const for its readers.
  repeat(codes(view), const_cast<void*>(view.data), view.rows * view.row_bytes());
  if (view.scales != nullptr) {
    repeat(scales(view), const_cast<std::uint8_t*>(view.scales), view.rows * view.scale_cols());
  }
}

}  // namespace baltoro
