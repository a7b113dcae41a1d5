#include "text/grammar/token_trie.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace baltoro {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  tokens.reserve(static_cast<std::size_t>(tokenizer.num_ranks()));
  all_.resize(static_cast<std::size_t>(tokenizer.vocab_size() + 63) / 64);
  for (TokenId id = 0; id < tokenizer.num_ranks(); ++id) {
    tokens.emplace_back(tokenizer.token_bytes(id), id);
    all_[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (id % 64);
  }
  std::ranges::sort(tokens);
  nodes_.push_back({0, kNoToken, 0});
  std::vector<std::uint32_t> path = {kRoot};  // of the token before
  std::string_view before;
  const auto leave_below = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
    }
  };
  for (const auto& [bytes, id] : tokens) {
    const auto shared =
        static_cast<std::size_t>(std::ranges::mismatch(bytes, before).in1 - bytes.begin());
    leave_below(shared);
    for (const char c : bytes.substr(shared)) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, kNoToken, static_cast<std::uint8_t>(c)});
    }
    nodes_[path.back()].token = id;
    before = bytes;
  }
  leave_below(0);
  nodes_[kRoot].end = static_cast<std::uint32_t>(nodes_.size());
}

}  // namespace baltoro
