#include "text/grammar/token_grammar.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

using Range = StackSpace::Range;

// Beyond this many a bit for each token of a large vocabulary is smaller, and faster to add.
constexpr std::size_t kMaxListed = 2048;

void set_bit(std::span<std::uint64_t> mask, TokenId token) {
  const auto i = static_cast<std::size_t>(token);
  if (i / 64 < mask.size()) mask[i / 64] |= std::uint64_t{1} << (i % 64);
}

// Reads the subtree below `root` from `start` on. Calls token(id) for each token that the grammar
// can read whole, exit(node) where it may end at a node with more below it.
template <typename OnToken, typename OnExit>
void walk(const TokenTrie& trie, std::uint32_t root, StackSpace& space, Range start,
          const OnToken& on_token, const OnExit& on_exit) {
  struct Level {
    std::uint32_t end;
    Range stacks;
    StackSpace::Mark mark;  // before `stacks` was made
  };
  std::vector<Level> levels = {{trie.node(root).end, start, space.mark()}};
  for (std::uint32_t i = root + 1; i < trie.node(root).end;) {
    while (levels.back().end <= i) {
      space.release(levels.back().mark);
      levels.pop_back();
    }
    const TokenTrie::Node& node = trie.node(i);
    const StackSpace::Mark mark = space.mark();
    const Range next = space.read_byte(levels.back().stacks, node.byte);
    if (node.token != TokenTrie::kNoToken && (next.alive() || next.complete)) on_token(node.token);
    const bool deeper = trie.has_children(i);
    if (next.complete && deeper) on_exit(i);
    if (next.alive() && deeper) {
      levels.push_back({node.end, next, mark});
      ++i;
    } else {
      space.release(mark);
      i = node.end;
    }
  }
  while (levels.size() > 1) {
    space.release(levels.back().mark);
    levels.pop_back();
  }
}

// Whether any text can be read at a state without leaving it or doing anything else but reading a
// special token.
bool reads_all_text(const Grammar& grammar, StateId state) {
  return grammar.is_plain(state) &&
         std::ranges::any_of(grammar.edges(state), [&](const GrammarEdge& edge) {
           return edge.kind == GrammarEdge::Kind::kBytes && edge.low == 0 && edge.high == 255 &&
                  edge.target == state;
         });
}

}  // namespace

const StateTokens* StateTokensCache::find(StateId state) const {
  const std::lock_guard lock(mutex_);
  const auto it = by_state_.find(state);
  return it == by_state_.end() ? nullptr : it->second.get();
}

const StateTokens& StateTokensCache::add(StateId state, StateTokens tokens) {
  auto entry = std::make_unique<const StateTokens>(std::move(tokens));
  const std::lock_guard lock(mutex_);
  return *by_state_.try_emplace(state, std::move(entry)).first->second;
}

TokenGrammar::TokenGrammar(Grammar grammar, std::shared_ptr<TokenGrammarBase> base,
                           std::vector<TokenId> end_ids)
    : grammar_(std::move(grammar)), base_(std::move(base)), end_ids_(std::move(end_ids)) {}

const StateTokens& TokenGrammar::tokens_of(StateId state, StackSpace& space) const {
  const bool shared = static_cast<std::size_t>(state) < base_->num_states;
  StateTokensCache& cache = shared ? base_->cache : cache_;
  if (const StateTokens* known = cache.find(state)) return *known;
  return cache.add(state, find_tokens(state, space));
}

StateTokens TokenGrammar::find_tokens(StateId state, StackSpace& space) const {
  StateTokens found;
  if (reads_all_text(grammar_, state)) {
    found.bits.assign(trie().all().begin(), trie().all().end());
  } else {
    const StackSpace::Mark mark = space.mark();
    // Not closed: what the state calls or skips to has results of its own.
    const Range start = space.single(state);
    walk(
        trie(), TokenTrie::kRoot, space, start, [&](TokenId token) { found.list.push_back(token); },
        [&](std::uint32_t node) { found.exits.push_back(node); });
    space.release(mark);
  }
  for (const GrammarEdge& edge : grammar_.edges(state)) {
    if (edge.kind == GrammarEdge::Kind::kToken) found.list.push_back(edge.value);
  }
  if (found.list.size() > kMaxListed) {
    found.bits.resize(trie().all().size());
    for (const TokenId token : found.list) set_bit(found.bits, token);
    found.list.clear();
  }
  found.list.shrink_to_fit();
  found.exits.shrink_to_fit();
  return found;
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<const TokenGrammar> grammar,
                                     Tokenizer tokenizer)
    : grammar_(std::move(grammar)), tokenizer_(std::move(tokenizer)), space_(grammar_->grammar()) {
  space_.open();
  space_.add(grammar_->grammar().start(), space_.bottom());
  now_ = space_.close();
}

void GrammarConstraint::allow(std::span<std::uint64_t> mask) {
  if (now_.complete) {
    for (const TokenId id : grammar_->end_ids()) set_bit(mask, id);
  }
  for (std::size_t i = now_.begin; i < now_.end; ++i) {
    const auto [state, parents] = space_.top(i);
    if (!grammar_->grammar().consumes(state)) continue;
    const StateTokens& tokens = grammar_->tokens_of(state, space_);
    const std::size_t words = std::min(mask.size(), tokens.bits.size());
    for (std::size_t w = 0; w < words; ++w) mask[w] |= tokens.bits[w];
    for (const TokenId token : tokens.list) set_bit(mask, token);
    if (!tokens.exits.empty()) allow_behind_exits(tokens, parents, mask);
  }
}

// Tokens that go on behind the end of the rule on top.
void GrammarConstraint::allow_behind_exits(const StateTokens& tokens, std::int32_t parents,
                                           std::span<std::uint64_t> mask) {
  const StackSpace::Mark mark = space_.mark();
  space_.open();
  space_.pop(parents);
  const Range below = space_.close();
  if (below.alive()) {
    for (const std::uint32_t node : tokens.exits) {
      walk(
          grammar_->trie(), node, space_, below, [&](TokenId token) { set_bit(mask, token); },
          [](std::uint32_t) {});
    }
  }
  space_.release(mark);
}

void GrammarConstraint::accept(TokenId token) {
  const StackSpace::Mark mark = space_.mark();
  Range next = now_;
  if (tokenizer_.is_special(token)) {
    next = space_.read_token(now_, token);
  } else {
    for (const char c : tokenizer_.token_bytes(token)) {
      next = space_.read_byte(next, static_cast<std::uint8_t>(c));
    }
  }
  if (next.alive() || next.complete) {
    now_ = space_.keep_only(next);
    return;
  }
  space_.release(mark);
  if (now_.complete && std::ranges::find(grammar_->end_ids(), token) != grammar_->end_ids().end()) {
    return;
  }
  fail(ErrorCode::kUsage, "token {} does not fit the grammar of the answer here", token);
}

}  // namespace baltoro
