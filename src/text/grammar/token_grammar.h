// A grammar applied to the tokens of one vocabulary: which of them may come next. The walk over the
// vocabulary from one state of the grammar is made once and kept: what it finds for tokens that end
// within the state's rule depends on nothing else, and for the others it keeps the places in the
// tree of tokens from which the stack decides.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "baltoro/constraint.h"
#include "text/grammar/grammar.h"
#include "text/grammar/stack_set.h"
#include "text/grammar/token_trie.h"

namespace baltoro {

// The tokens that may come at one state, as far as its rule alone says.
struct StateTokens {
  std::vector<TokenId> list;         // few, or
  std::vector<std::uint64_t> bits;   // many
  std::vector<std::uint32_t> exits;  // nodes of the tree where the rule may have ended
};

// Results by state. Safe to use from many threads at once; what find() and add() return stays.
class StateTokensCache {
 public:
  const StateTokens* find(StateId state) const;
  const StateTokens& add(StateId state, StateTokens tokens);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<StateId, std::unique_ptr<const StateTokens>> by_state_;
};

// What grammars of one vocabulary share: the tree, and results for the states that all have.
struct TokenGrammarBase {
  std::shared_ptr<const TokenTrie> trie;
  std::size_t num_states = 0;  // that every grammar begins with
  StateTokensCache cache;
};

// Immutable but for the cache; safe to use from many threads at once.
class TokenGrammar {
 public:
  // The first base->num_states states of `grammar` are those of the base. `end_ids` are what may
  // come where the grammar has ended, and forever after.
  TokenGrammar(Grammar grammar, std::shared_ptr<TokenGrammarBase> base,
               std::vector<TokenId> end_ids);

  const Grammar& grammar() const { return grammar_; }
  const TokenTrie& trie() const { return *base_->trie; }
  std::span<const TokenId> end_ids() const { return end_ids_; }

  // The tokens that edges of `state` begin; `space` is working memory for this grammar.
  const StateTokens& tokens_of(StateId state, StackSpace& space) const;

 private:
  StateTokens find_tokens(StateId state, StackSpace& space) const;
  void walk_all(StateId state, StackSpace& space, StateTokens& found) const;
  void walk_difference(StateId state, const StateTokens& known, StackSpace& space,
                       StateTokens& found) const;

  Grammar grammar_;
  std::shared_ptr<TokenGrammarBase> base_;
  std::vector<TokenId> end_ids_;
  mutable StateTokensCache cache_;
};

// A place in an answer that follows a grammar.
class GrammarConstraint final : public TokenConstraint {
 public:
  // `tokenizer` is that of the grammar.
  GrammarConstraint(std::shared_ptr<const TokenGrammar> grammar, Tokenizer tokenizer);

  void allow(std::span<std::uint64_t> mask) override;
  void accept(TokenId token) override;

  // Whether the answer may end here.
  bool complete() const { return now_.complete; }

 private:
  void allow_behind_exits(const StateTokens& tokens, std::int32_t parents,
                          std::span<std::uint64_t> mask);

  std::shared_ptr<const TokenGrammar> grammar_;
  Tokenizer tokenizer_;
  StackSpace space_;
  StackSpace::Range now_;
};

}  // namespace baltoro
