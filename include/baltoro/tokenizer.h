// Text to token ids and back for the Kimi family: a tiktoken rank file and the special tokens of
// tokenizer_config.json. First and last station of a request: text -> Tokenizer -> Engine ->
// StreamDecoder -> text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// Ids below num_ranks() are ranks of the file; the special block follows, up to vocab_size().
using TokenId = std::int32_t;

// A loaded vocabulary. Immutable, cheap to copy, safe to use from many threads at once.
//
// Pre-tokenisation runs on PCRE2; its Unicode tables decide what is a letter (PCRE2 10.42: Unicode
// 14.0), so pieces may differ from the released tokenizer where younger characters occur.
class Tokenizer {
 public:
  // Reads `dir`/tiktoken.model and `dir`/tokenizer_config.json. Throws Error{kBadModel} naming
  // file, line or key, value and remedy; Error{kIo} if a file that exists cannot be read.
  static Tokenizer load(const std::filesystem::path& dir);

  // The ids of plain text: special strings such as "<|open|>" are text like any other, so no id of
  // the special block comes back. Never fails on content: each maximal run of bytes that is not
  // well-formed UTF-8 is one piece, encoded by its bytes. decode(encode(text)) == text.
  std::vector<TokenId> encode(std::string_view text) const;

  // As encode, but each special string becomes its id (leftmost, the longest where two begin at
  // one place). For control segments of a chat format, never for text of users, tools or files.
  std::vector<TokenId> encode_control(std::string_view text) const;

  // The id of a special token by its exact string, "[EOS]" or "<|reserved_token_163592|>".
  std::optional<TokenId> special_id(std::string_view name) const;

  // Whether the id lies in the special block; false for ids outside the vocabulary.
  bool is_special(TokenId id) const noexcept;

  // Whether the id is a place holder, "<|reserved_token_N|>", which no model should produce.
  bool is_reserved(TokenId id) const noexcept;

  // The bytes of a token, for a special one its string; they need not be whole UTF-8 characters.
  // The view lives as long as any copy of this tokenizer. Throws Error{kUsage} if the id is not
  // in [0, vocab_size()).
  std::string_view token_bytes(TokenId id) const;

  // The concatenated bytes of the tokens; nothing is inserted, trimmed or replaced. Throws as
  // token_bytes.
  std::string decode(std::span<const TokenId> ids) const;

  int num_ranks() const noexcept;
  int vocab_size() const noexcept;

  // Assembles a tokenizer from its parts (src/text/tokenizer_parts.h): load() and tests.
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

 private:
  std::shared_ptr<const Parts> parts_;
};

// What a StreamDecoder does with bytes that are not UTF-8.
enum class InvalidUtf8 {
  kReplace,  // each maximal ill-formed part becomes U+FFFD: the output is always valid UTF-8
  kKeep,     // bytes pass through: the output is exactly the bytes of the tokens
};

// Turns a stream of ids into text that can be shown at once: what feed() returns never ends inside
// a UTF-8 character. At most three bytes are held back, and finish() returns what is left of them.
// One thread at a time.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, InvalidUtf8 invalid = InvalidUtf8::kReplace);

  // The text that `id` completes; may be empty. Throws Error{kUsage} for an id outside the
  // vocabulary and is then unchanged.
  std::string feed(TokenId id);

  // The unfinished bytes (kKeep) or one U+FFFD for them (kReplace), empty if there are none. The
  // decoder can then be used anew.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  InvalidUtf8 invalid_;
  std::string pending_;
};

}  // namespace baltoro
