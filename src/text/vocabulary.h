// The ranked tokens of a tiktoken file: id -> bytes by an arena, bytes -> id by a hash table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/tokenizer.h"

namespace baltoro {

// Built once by add(), immutable afterwards and then safe to read from many threads.
class Vocabulary {
 public:
  // Room for `num_tokens` tokens of `num_bytes` bytes in total; add() must stay within both.
  Vocabulary(std::size_t num_tokens, std::size_t num_bytes);

  // Appends the token whose id is size(). Returns the id of an equal token and adds nothing if
  // there is one.
  std::optional<TokenId> add(std::string_view bytes);

  // The id of exactly these bytes, or kAbsent.
  static constexpr TokenId kAbsent = -1;
  TokenId find(std::string_view bytes) const;

  // `id` must be in [0, size()).
  std::string_view token(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(arena_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }

  std::size_t size() const { return begins_.size() - 1; }
  std::size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  // Tokens of up to 8 bytes, nearly all that text asks for, are compared inside their slot; a
  // lookup then costs one cache miss and not three.
  struct Slot {
    std::uint64_t head = 0;  // the first 8 bytes, packed; unique for a given length up to 8
    std::uint32_t length = 0;
    TokenId id = kAbsent;
  };

  // The slot of these bytes, or the empty one where they belong.
  std::size_t probe(std::string_view bytes) const;

  std::string arena_;
  std::vector<std::uint32_t> begins_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::size_t max_token_bytes_ = 0;
};

}  // namespace baltoro
