// The ordinary tokens of a vocabulary as a tree of their bytes, so that a matcher reads each
// beginning that many tokens share but once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "baltoro/tokenizer.h"

namespace baltoro {

// Immutable. Nodes stand in depth-first order, children by their byte; node 0 is the root.
class TokenTrie {
 public:
  static constexpr TokenId kNoToken = -1;
  static constexpr std::uint32_t kRoot = 0;

  struct Node {
    std::uint32_t end;  // behind the last node of its subtree
    TokenId token;      // that ends here, or kNoToken
    std::uint8_t byte;
  };

  explicit TokenTrie(const Tokenizer& tokenizer);

  const Node& node(std::uint32_t i) const { return nodes_[i]; }
  bool has_children(std::uint32_t i) const { return nodes_[i].end > i + 1; }
  std::size_t num_nodes() const { return nodes_.size(); }

  // One bit a token: all that the tree holds.
  std::span<const std::uint64_t> all() const { return all_; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> all_;
};

}  // namespace baltoro
