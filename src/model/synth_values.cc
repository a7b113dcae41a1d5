#include "model/synth_values.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/dtype.h"
#include "core/mxint8.h"

namespace baltoro {
namespace {

// FNV-1a: the random stream of a name.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Sums of four bytes have mean 510 and this standard deviation.
const float kBellStd = std::sqrt(4.0f * (256.0f * 256.0f - 1.0f) / 12.0f);

// A normal of sigma 2.7 rounded to E2M1, as the OCP scaling rule yields it on normal weights: of
// 128 byte values this many map to each magnitude. The root mean square is kE2m1Rms.
constexpr std::array<int, 8> kE2m1Counts = {9, 19, 18, 16, 21, 20, 17, 8};
constexpr float kE2m1Rms = 2.626f;

constexpr std::array<std::uint8_t, 256> make_codes() {
  std::array<std::uint8_t, 256> codes{};
  std::size_t next = 0;
  for (std::uint8_t code = 0; code < 8; ++code) {
    for (int i = 0; i < kE2m1Counts[code]; ++i) {
      codes[next] = code;
      codes[next + 128] = static_cast<std::uint8_t>(code | 8);
      ++next;
    }
  }
  return codes;
}
constexpr std::array<std::uint8_t, 256> kCodes = make_codes();

struct MatrixGain {
  std::string_view ending;
  float gain;
};

// The first ending that fits counts; other matrices have gain 1. GLU: the gate often passes SiTU's
// cap of 4 and the up branch feels its cap of 25; down brings the result back below 1.
constexpr MatrixGain kGains[] = {
    {"experts.gate_proj", 2.0f}, {"mlp.gate_proj", 2.0f},         {".w1", 2.0f},
    {"experts.up_proj", 4.0f},   {"mlp.up_proj", 4.0f},           {".w3", 4.0f},
    {"experts.down_proj", 0.2f}, {"mlp.down_proj", 0.2f},         {".w2", 0.2f},
    {"self_attn.b_proj", 1.5f},  {"routed_expert_up_proj", 0.7f},
};

float matrix_gain(std::string_view name) {
  name = name.substr(0, name.rfind('.'));
  for (const MatrixGain& entry : kGains) {
    if (name.ends_with(entry.ending)) return entry.gain;
  }
  return 1.0f;
}

struct Bell {
  float mean;
  float std;
};

Bell bell_of(const ModelConfig& config, const TensorSpec& tensor) {
  const auto columns = static_cast<float>(tensor.shape.rank > 1 ? tensor.shape[1] : 1);
  switch (tensor.role) {
    case TensorRole::kNorm:
      return {1.0f, 0.1f};
    case TensorRole::kConv:
      return {0.0f, 0.5f};
    case TensorRole::kResidualProj:
      return {0.0f, 0.7f / std::sqrt(columns)};
    case TensorRole::kALog:
      // Without a bound some decays shall fall far below e^-5.
      return config.kda.gate_lower_bound ? Bell{0.4f, 0.5f} : Bell{1.0f, 0.8f};
    case TensorRole::kDtBias:
      return {-2.0f, 1.0f};
    case TensorRole::kRouterBias:
      return {0.0f, 0.05f};
    default:
      if (tensor.component == Component::kEmbedding) return {0.0f, 3.0f};
      return {0.0f, matrix_gain(tensor.name) / std::sqrt(columns)};
  }
}

}  // namespace

TensorDraw::TensorDraw(const ModelConfig& config, const TensorSpec& tensor, std::uint64_t seed)
    : tensor_(tensor),
      random_(seed, hash_name(tensor.name)),
      used_(static_cast<std::uint64_t>(tensor.shape.count())) {
  const Bell bell = bell_of(config, tensor);
  mean_ = bell.mean;
  unit_ = bell.std / kBellStd;
  if (tensor.role == TensorRole::kALog) {
    used_ = static_cast<std::uint64_t>(config.kda.num_heads);
  }
  const bool packed = tensor.role == TensorRole::kPackedScales;
  if (packed || tensor.role == TensorRole::kInt8Scales) {
    const auto columns = static_cast<float>(tensor.shape[1] * kMxGroup);
    const float std = matrix_gain(tensor.name) / std::sqrt(columns);
    const float codes_std = packed ? kE2m1Rms : kBellStd / 4 * kMxint8Unit;
    base_scale_ = 127 + static_cast<int>(std::lround(std::log2(std / codes_std)));
  }
}

int TensorDraw::bell(std::uint64_t element) const {
  const std::uint32_t word = random_.block(element / 4)[element % 4];
  const std::uint32_t sum =
      (word & 0xffu) + ((word >> 8) & 0xffu) + ((word >> 16) & 0xffu) + (word >> 24);
  return static_cast<int>(sum) - 510;
}

float TensorDraw::value(std::uint64_t element) const {
  if (element >= used_) return 0.0f;
  return static_cast<float>(bell(element)) * unit_ + mean_;
}

std::uint8_t TensorDraw::packed_byte(std::uint64_t element) const {
  const std::uint32_t word = random_.block(element / 8)[(element % 8) / 2];
  const std::uint32_t pair = element % 2 == 0 ? word : word >> 16;
  return static_cast<std::uint8_t>(kCodes[pair & 0xffu] | (kCodes[(pair >> 8) & 0xffu] << 4));
}

std::uint8_t TensorDraw::scale_byte(std::uint64_t element) const {
  constexpr int kSpread[4] = {-1, 0, 0, 1};
  const std::uint32_t word = random_.block(element / 64)[(element % 64) / 16];
  return static_cast<std::uint8_t>(base_scale_ + kSpread[(word >> (2 * (element % 16))) & 3u]);
}

void TensorDraw::fill(std::uint64_t begin, std::span<std::byte> out) const {
  const std::size_t width = dtype_bytes(tensor_.dtype);
  std::uint64_t element = begin / width;
  for (std::size_t at = 0; at < out.size(); at += width, ++element) {
    if (tensor_.role == TensorRole::kPackedCodes) {
      out[at] = static_cast<std::byte>(packed_byte(element));
    } else if (tensor_.role == TensorRole::kInt8Codes) {
      out[at] = static_cast<std::byte>(bell(element) / 4);  // within [-127, 127]
    } else if (tensor_.dtype == DType::kU8) {
      out[at] = static_cast<std::byte>(scale_byte(element));
    } else if (tensor_.dtype == DType::kF32) {
      const float number = value(element);
      std::memcpy(&out[at], &number, 4);
    } else {
      const std::uint16_t bits = f32_to_bf16(value(element));
      std::memcpy(&out[at], &bits, 2);
    }
  }
}

}  // namespace baltoro
