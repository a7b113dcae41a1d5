// The special tokens of a vocabulary: the ids behind the ranks, named by tokenizer_config.json.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "baltoro/tokenizer.h"

namespace baltoro {

struct SpecialToken {
  TokenId id;
  std::string name;
};

// Where a special string stands in a text.
struct SpecialMatch {
  std::size_t begin;
  std::size_t bytes;
  TokenId id;
};

// Immutable after construction.
class SpecialTokens {
 public:
  // The block [first_id, largest id]. Ids without an entry get the name "<|reserved_token_N|>"
  // with N the id, as the released tokenizer does. Throws Error{kBadModel}, naming `file`, if the
  // smallest id is not first_id (a truncated rank file looks like this), for an id far above it, a
  // repeated id or name, and an empty name.
  SpecialTokens(std::vector<SpecialToken> entries, TokenId first_id, std::string_view file);
  SpecialTokens(SpecialTokens&&) = default;
  SpecialTokens& operator=(SpecialTokens&&) = default;

  std::optional<TokenId> find(std::string_view name) const;
  bool contains(TokenId id) const { return id >= first_id_ && id < end_id(); }
  bool is_reserved(TokenId id) const;
  TokenId first_id() const { return first_id_; }
  TokenId end_id() const { return first_id_ + static_cast<TokenId>(names_.size()); }

  // `id` must be contained.
  std::string_view name(TokenId id) const {
    return names_[static_cast<std::size_t>(id - first_id_)];
  }

  // The leftmost special string at or behind `from`, the longest if two begin there.
  std::optional<SpecialMatch> next_match(std::string_view text, std::size_t from) const;

 private:
  void index_names(std::string_view file);

  TokenId first_id_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys view names_, so no copies
  std::string first_bytes_;                            // the bytes that a name can begin with
  std::vector<std::size_t> lengths_;                   // of names, longest first
};

// Parses `added_tokens_decoder` of a tokenizer_config.json; all its entries belong to the block,
// whatever their flag `special` says. Throws Error{kBadModel} naming file, key, value and remedy.
SpecialTokens parse_special_tokens(std::string_view json, TokenId first_id, std::string_view file);

}  // namespace baltoro
