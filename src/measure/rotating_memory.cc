#include "measure/rotating_memory.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/rng.h"
#include "ops/mix_norm.h"

namespace baltoro {
namespace {

constexpr std::size_t kPatternWords = std::size_t{1} << 19;
// Calls start at a cache line, as tensors of a loaded checkpoint do.
constexpr std::int64_t kAlign = 64;

// bf16 values of either sign; two of them in a row are an f32 value of the same size.
std::vector<std::uint16_t> value_pattern() {
  const Philox random(11, 0);
  std::vector<std::uint16_t> words(kPatternWords);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t word = random.block(i)[0];
    const std::uint32_t exponent = 121 + (word >> 16) % 6;
    words[i] = static_cast<std::uint16_t>((word & 0x807fu) | exponent << 7);
  }
  return words;
}

std::span<const std::uint16_t> values() {
  static const std::vector<std::uint16_t> pattern = value_pattern();
  return pattern;
}

std::span<const std::uint16_t> scales() {
  constexpr std::uint16_t kTwoE8m0 = 123u << 8 | 122u;
  static const std::vector<std::uint16_t> pattern(kPatternWords, kTwoE8m0);
  return pattern;
}

BatchView one_row() {
  static constexpr std::int32_t kToken = 0;
  static const SequenceRows kRow{.num_rows = 1, .origin = Origin::kGenerated, .pages = {}};
  return {{&kToken, 1}, {&kRow, 1}};
}

}  // namespace

Buffer RotatingMemory::filled(std::int64_t bytes, std::span<const std::uint16_t> pattern) {
  Buffer buffer = backend_.allocate(static_cast<std::size_t>(bytes), "the calibration");
  for (std::size_t at = 0; at < buffer.bytes(); at += pattern.size_bytes()) {
    backend_.copy(static_cast<std::byte*>(buffer.data()) + at, pattern.data(),
                  std::min(pattern.size_bytes(), buffer.bytes() - at));
  }
  return buffer;
}

void RotatingMemory::set_working_set(std::int64_t bytes) {
  weights_.size = items_.size = bytes;
  // One byte beside at least 16 of values.
  scales_.size = bytes / 16;
  weights_.next = items_.next = scales_.next = 0;
  activations_.clear();
  fixed_.clear();
  batch_ = one_row();
}

std::byte* RotatingMemory::take(Ring& ring, std::int64_t bytes,
                                std::span<const std::uint16_t> pattern) {
  BALTORO_CHECK(bytes <= ring.size, "{} bytes of a working set of {}", bytes, ring.size);
  if (static_cast<std::int64_t>(ring.buffer.bytes()) < ring.size) {
    ring.buffer = filled(ring.size, pattern);
  }
  if (ring.next + bytes > ring.size) ring.next = 0;
  std::byte* const at = static_cast<std::byte*>(ring.buffer.data()) + ring.next;
  ring.next += (bytes + kAlign - 1) / kAlign * kAlign;
  return at;
}

WeightView RotatingMemory::weight(WeightFormat format, std::int64_t rows, std::int64_t cols) {
  WeightView view{nullptr, nullptr, format, rows, cols};
  view.data = take(weights_, rows * view.row_bytes(), values());
  if (view.grouped()) {
    view.scales =
        reinterpret_cast<const std::uint8_t*>(take(scales_, rows * view.scale_cols(), scales()));
  }
  return view;
}

std::byte* RotatingMemory::items(std::int64_t bytes) { return take(items_, bytes, values()); }

TensorView RotatingMemory::activations(std::int64_t rows, std::int64_t cols) {
  const DType dtype = backend_.activation_dtype();
  const auto bytes = rows * cols * static_cast<std::int64_t>(dtype_bytes(dtype));
  const auto view = [&] {
    fixed_.push_back(filled(bytes, values()));
    return TensorView{fixed_.back().data(), dtype, {rows, cols}};
  };
  activations_.push_back({view(), view(), vector(cols)});
  return activations_.back().view;
}

void RotatingMemory::renew_activations() {
  for (const Activation& activation : activations_) {
    MixNormArgs args;
    args.prefix = activation.source;
    args.norm = activation.norm;
    args.out = activation.view;
    mix_norm(backend_, args);
  }
}

std::int32_t* RotatingMemory::ints(const std::vector<std::int32_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::int32_t);
  fixed_.push_back(backend_.allocate(bytes, "the calibration"));
  backend_.copy(fixed_.back().data(), values.data(), bytes);
  return static_cast<std::int32_t*>(fixed_.back().data());
}

const float* RotatingMemory::vector(std::int64_t count) {
  fixed_.push_back(filled(count * static_cast<std::int64_t>(sizeof(float)), values()));
  return fixed_.back().f32();
}

}  // namespace baltoro
