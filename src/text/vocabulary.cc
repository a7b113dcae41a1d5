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

std::uint64_t load_up_to_8(const char* data, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, size);
  return word;
}

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size() * kGolden;
  std::size_t pos = 0;
  for (; pos + 8 < bytes.size(); pos += 8) {
    hash = std::rotl((hash ^ load_up_to_8(bytes.data() + pos, 8)) * kMix, 29);
  }
  hash = (hash ^ load_up_to_8(bytes.data() + pos, bytes.size() - pos)) * kMix;
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

std::size_t Vocabulary::probe(std::string_view bytes, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t index = hash & mask;
  while (slots_[index].id != kAbsent &&
         (slots_[index].tag != tag || token(slots_[index].id) != bytes)) {
    index = (index + 1) & mask;
  }
  return index;
}

std::optional<TokenId> Vocabulary::add(std::string_view bytes) {
  BALTORO_CHECK(
      2 * (size() + 1) <= slots_.size() && arena_.size() + bytes.size() <= arena_.capacity(),
      "token {} does not fit", size());
  const std::uint64_t hash = hash_bytes(bytes);
  Slot& slot = slots_[probe(bytes, hash)];
  if (slot.id != kAbsent) return slot.id;
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<TokenId>(size())};
  arena_ += bytes;
  begins_.push_back(static_cast<std::uint32_t>(arena_.size()));
  max_token_bytes_ = std::max(max_token_bytes_, bytes.size());
  return std::nullopt;
}

TokenId Vocabulary::find(std::string_view bytes) const {
  if (bytes.size() > max_token_bytes_) return kAbsent;
  return slots_[probe(bytes, hash_bytes(bytes))].id;
}

}  // namespace baltoro
