#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace baltoro {
namespace {

// Odd constants with well spread bits (the golden ratio, and the finaliser of SplitMix64).
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr std::uint64_t kMix = 0xBF58476D1CE4E5B9u;

template <typename T>
std::uint64_t load(const char* data) {
  T word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// The first 8 bytes in one word. Shorter strings are read by loads that overlap, without a loop.
std::uint64_t pack_head(std::string_view bytes) {
  const char* data = bytes.data();
  const std::size_t size = bytes.size();
  if (size >= 8) return load<std::uint64_t>(data);
  if (size >= 4) return load<std::uint32_t>(data) | load<std::uint32_t>(data + size - 4) << 32;
  if (size >= 2) return load<std::uint16_t>(data) | load<std::uint16_t>(data + size - 2) << 16;
  return size == 1 ? load<std::uint8_t>(data) : 0;
}

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t head) {
  std::uint64_t hash = (head ^ (bytes.size() * kGolden)) * kMix;
  for (std::size_t pos = 8; pos < bytes.size(); pos += 8) {
    hash = (std::rotl(hash, 29) ^ pack_head(bytes.substr(pos))) * kMix;
  }
  hash = (hash ^ (hash >> 32)) * kGolden;
  return hash ^ (hash >> 29);
}

}  // namespace

Vocabulary::Vocabulary(std::size_t num_tokens, std::size_t num_bytes)
    : begins_{0}, slots_(std::bit_ceil(2 * num_tokens + 2)) {
  BALTORO_CHECK(num_tokens <= std::numeric_limits<TokenId>::max() / 2 &&
                    num_bytes <= std::numeric_limits<std::uint32_t>::max(),
                "{} tokens of {} bytes", num_tokens, num_bytes);
  arena_.reserve(num_bytes);
  begins_.reserve(num_tokens + 1);
}

std::size_t Vocabulary::probe(std::string_view bytes) const {
  const std::uint64_t head = pack_head(bytes);
  const std::size_t mask = slots_.size() - 1;
  const auto equals = [&](const Slot& slot) {
    if (slot.head != head || slot.length != bytes.size()) return false;
    return bytes.size() <= 8 || token(slot.id) == bytes;
  };
  std::size_t index = hash_bytes(bytes, head) & mask;
  while (slots_[index].id != kAbsent && !equals(slots_[index])) index = (index + 1) & mask;
  return index;
}

std::optional<TokenId> Vocabulary::add(std::string_view bytes) {
  BALTORO_CHECK(
      2 * (size() + 1) <= slots_.size() && arena_.size() + bytes.size() <= arena_.capacity(),
      "token {} does not fit", size());
  Slot& slot = slots_[probe(bytes)];
  if (slot.id != kAbsent) return slot.id;
  slot = {pack_head(bytes), static_cast<std::uint32_t>(bytes.size()), static_cast<TokenId>(size())};
  arena_ += bytes;
  begins_.push_back(static_cast<std::uint32_t>(arena_.size()));
  max_token_bytes_ = std::max(max_token_bytes_, bytes.size());
  return std::nullopt;
}

TokenId Vocabulary::find(std::string_view bytes) const {
  if (bytes.size() > max_token_bytes_) return kAbsent;
  return slots_[probe(bytes)].id;
}

}  // namespace baltoro
