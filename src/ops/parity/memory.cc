#include "ops/parity/memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/e8m0.h"

namespace baltoro {
namespace {

constexpr std::size_t kGuardBytes = 128;
constexpr std::byte kGuardByte{0xA5};

std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), f32_to_bf16);
  return bits;
}

// Random half-precision bits of magnitude 2^-7 to 1, every 16th value a subnormal.
std::vector<std::uint16_t> random_f16(const Philox& random, std::int64_t n) {
  std::vector<std::uint16_t> bits;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t word = random.block(static_cast<std::uint64_t>(i))[0];
    const std::uint32_t exponent = i % 16 == 15 ? 0 : 8 + (word >> 16) % 7;
    bits.push_back(static_cast<std::uint16_t>((word & 0x83ffu) | (exponent << 10)));
  }
  return bits;
}

std::vector<std::uint8_t> random_bytes(const Philox& random, std::int64_t n) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < n; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(random.block(static_cast<std::uint64_t>(i))[1]));
  }
  return bytes;
}

}  // namespace

std::vector<float> random_values(std::uint64_t seed, const std::string& name, std::int64_t n,
                                 float scale) {
  const Philox random(seed, hash_name(name));
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(scale * (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1));
  }
  return values;
}

void* OpMemory::place(const std::string& name, const void* data, std::size_t bytes,
                      Placement placement) {
  const std::size_t offset = kGuardBytes + placement.misalign;
  std::vector<std::byte> image(offset + bytes + kGuardBytes, kGuardByte);
  if (bytes > 0) std::memcpy(image.data() + offset, data, bytes);
  Buffer buffer = backend_.allocate(image.size(), name.c_str());
  backend_.copy(buffer.data(), image.data(), image.size());
  regions_.push_back({name, std::move(buffer), std::move(image), offset, bytes, placement.dtype,
                      placement.is_input});
  return static_cast<std::byte*>(regions_.back().buffer.data()) + offset;
}

void* OpMemory::place_values(const std::string& name, const std::vector<float>& values, DType dtype,
                             bool is_input) {
  const Placement placement{dtype, is_input, 0};
  if (dtype == DType::kBf16) {
    const std::vector<std::uint16_t> bits = to_bf16(values);
    return place(name, bits.data(), bits.size() * sizeof(bits[0]), placement);
  }
  return place(name, values.data(), values.size() * sizeof(values[0]), placement);
}

std::vector<float> OpMemory::rounded(std::vector<float> values) const {
  if (backend_.activations() == Activations::kBf16) {
    std::transform(values.begin(), values.end(), values.begin(), round_bf16);
  }
  return values;
}

ConstTensorView OpMemory::input(const std::string& name, std::vector<float> values,
                                std::int64_t cols) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / cols;
  const DType dtype = backend_.activation_dtype();
  return {place_values(name, rounded(std::move(values)), dtype, true), dtype, {rows, cols}};
}

TensorView OpMemory::in_out(const std::string& name, std::vector<float> values, std::int64_t cols) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / cols;
  const DType dtype = backend_.activation_dtype();
  return {place_values(name, rounded(std::move(values)), dtype, false), dtype, {rows, cols}};
}

TensorView OpMemory::output(const std::string& name, std::int64_t rows, std::int64_t cols) {
  const std::vector<float> poison(static_cast<std::size_t>(rows * cols),
                                  std::numeric_limits<float>::quiet_NaN());
  const DType dtype = backend_.activation_dtype();
  return {place_values(name, poison, dtype, false), dtype, {rows, cols}};
}

const float* OpMemory::input_f32(const std::string& name, const std::vector<float>& values) {
  return static_cast<const float*>(place_values(name, values, DType::kF32, true));
}

const std::int32_t* OpMemory::input_i32(const std::string& name,
                                        const std::vector<std::int32_t>& values) {
  return static_cast<const std::int32_t*>(
      place(name, values.data(), values.size() * sizeof(values[0]), {DType::kI32, true, 0}));
}

float* OpMemory::state_f32(const std::string& name, const std::vector<float>& values) {
  return static_cast<float*>(place_values(name, values, DType::kF32, false));
}

void* OpMemory::state(const std::string& name, const std::vector<float>& values, DType dtype) {
  return place_values(name, values, dtype, false);
}

std::int32_t* OpMemory::state_i32(const std::string& name,
                                  const std::vector<std::int32_t>& values) {
  return static_cast<std::int32_t*>(
      place(name, values.data(), values.size() * sizeof(values[0]), {DType::kI32, false, 0}));
}

void* OpMemory::cache(const std::string& name, const std::vector<float>& values) {
  return place_values(name, values, backend_.cache_dtype(), false);
}

void* OpMemory::latents(const std::string& name, const std::vector<float>& values,
                        const LatentPage& layout) {
  const auto width = static_cast<std::size_t>(layout.rank + layout.side);
  const auto rows = static_cast<std::int64_t>(values.size() / width);
  std::vector<std::byte> pages(static_cast<std::size_t>(rows / kBlockTokens * layout.bytes()));
  for (std::int64_t row = 0; row < rows; ++row) {
    write_latent(layout, pages.data() + row / kBlockTokens * layout.bytes(), row % kBlockTokens,
                 std::span(values).subspan(static_cast<std::size_t>(row) * width, width));
  }
  void* const placed = place(name, pages.data(), pages.size(), {DType::kE4m3, false, 0});
  regions_.back().latents = layout;
  return placed;
}

WeightView OpMemory::weight(std::uint64_t seed, const std::string& name, WeightFormat format,
                            std::int64_t rows, std::int64_t cols, float gain) {
  WeightView view{nullptr, nullptr, format, rows, cols};
  const std::int64_t n = rows * cols;
  const Philox random(seed, hash_name(name));
  const float scale = gain * 1.7f / std::sqrt(static_cast<float>(cols));
  const auto off = [this](std::size_t bytes) { return align_weights_ ? 0 : bytes; };
  if (format == WeightFormat::kF32) {
    const std::vector<float> values = random_values(seed, name, n, scale);
    view.data = place(name, values.data(), values.size() * 4, {DType::kF32, true, off(4)});
  } else if (format == WeightFormat::kBf16) {
    const std::vector<std::uint16_t> bits = to_bf16(random_values(seed, name, n, scale));
    view.data = place(name, bits.data(), bits.size() * 2, {DType::kBf16, true, off(2)});
  } else if (format == WeightFormat::kF16) {
    const std::vector<std::uint16_t> bits = random_f16(random, n);
    view.data = place(name, bits.data(), bits.size() * 2, {DType::kF16, true, off(2)});
  } else {
    const bool is_int8 = format == WeightFormat::kMxint8;
    const std::vector<std::uint8_t> packed = random_bytes(random, is_int8 ? n : n / 2);
    std::vector<std::uint8_t> scales = random_bytes(random, n / kMxGroup);
    const int center = 127 + static_cast<int>(std::floor(std::log2(scale / 4)));
    for (std::uint8_t& s : scales) s = static_cast<std::uint8_t>(center + s % 4);
    view.data = place(name, packed.data(), packed.size(),
                      {is_int8 ? DType::kI8 : DType::kU8, true, off(1)});
    view.scales = static_cast<const std::uint8_t*>(
        place(name + " scales", scales.data(), scales.size(), {DType::kU8, true, off(3)}));
  }
  return view;
}

std::vector<std::byte> OpMemory::download(const Region& region) {
  std::vector<std::byte> image(region.original.size());
  backend_.copy(image.data(), region.buffer.data(), image.size());
  return image;
}

std::vector<float> OpMemory::read(const Region& region, const std::byte* data) {
  std::vector<float> values;
  if (region.latents) {
    const auto page_bytes = static_cast<std::size_t>(region.latents->bytes());
    for (std::size_t at = 0; at < region.bytes; at += page_bytes) {
      for (std::int64_t token = 0; token < kBlockTokens; ++token) {
        const std::vector<float> row = read_latent(*region.latents, data + at, token);
        values.insert(values.end(), row.begin(), row.end());
      }
    }
    return values;
  }
  for (std::size_t at = 0; at < region.bytes; at += dtype_bytes(region.dtype)) {
    std::uint32_t word = 0;
    std::memcpy(&word, data + at, dtype_bytes(region.dtype));
    if (region.dtype == DType::kBf16) {
      values.push_back(bf16_to_f32(static_cast<std::uint16_t>(word)));
    } else if (region.dtype == DType::kI32) {
      values.push_back(static_cast<float>(static_cast<std::int32_t>(word)));
    } else {
      values.push_back(std::bit_cast<float>(word));
    }
  }
  return values;
}

std::vector<OpOutput> OpMemory::outputs() {
  backend_.synchronize();
  std::vector<OpOutput> outputs;
  for (const Region& region : regions_) {
    if (region.is_input) continue;
    const std::vector<std::byte> image = download(region);
    outputs.push_back({region.name, read(region, image.data() + region.offset)});
  }
  return outputs;
}

std::optional<std::string> OpMemory::damage() {
  backend_.synchronize();
  for (const Region& region : regions_) {
    const std::vector<std::byte> image = download(region);
    const auto same = [&](std::size_t begin, std::size_t end) {
      return std::equal(image.begin() + static_cast<std::ptrdiff_t>(begin),
                        image.begin() + static_cast<std::ptrdiff_t>(end),
                        region.original.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    if (!same(0, region.offset)) return region.name + ": written before its first element";
    if (!same(region.offset + region.bytes, image.size())) {
      return region.name + ": written behind its last element";
    }
    if (region.is_input && !same(0, image.size())) return region.name + ": input changed";
  }
  return std::nullopt;
}

}  // namespace baltoro
