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

void clear_bit(std::span<std::uint64_t> mask, TokenId token) {
  const auto i = static_cast<std::size_t>(token);
  mask[i / 64] &= ~(std::uint64_t{1} << (i % 64));
}

// Reads the tokens of a part of the tree from one place of a grammar on.
struct Walk {
  const TokenTrie& trie;
  StackSpace& space;
  Range start;

  // Reads the subtrees that make up the nodes [begin, end). Calls on_token(id) for each token that
  // can be read whole, and on_exit(node) where the grammar may end at a node with more below it.
  template <typename OnToken, typename OnExit>
  void read(std::uint32_t begin, std::uint32_t end, const OnToken& on_token,
            const OnExit& on_exit) const;

  template <typename OnToken, typename OnExit>
  void read_below(std::uint32_t node, const OnToken& on_token, const OnExit& on_exit) const {
    read(node + 1, trie.node(node).end, on_token, on_exit);
  }
};

template <typename OnToken, typename OnExit>
void Walk::read(std::uint32_t begin, std::uint32_t end, const OnToken& on_token,
                const OnExit& on_exit) const {
  struct Level {
    std::uint32_t end;
    Range stacks;
    StackSpace::Mark mark;  // before `stacks` was made
  };
  std::vector<Level> levels = {{end, start, space.mark()}};
  for (std::uint32_t i = begin; i < end;) {
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
  space.release(levels.front().mark);
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
  const StateId like = grammar_.like(state);
  const StateTokens* known = like == Grammar::kNone ? nullptr : &tokens_of(like, space);
  if (reads_all_text(grammar_, state)) {
    found.bits.assign(trie().all().begin(), trie().all().end());
  } else if (known != nullptr && !known->bits.empty()) {
    walk_difference(state, *known, space, found);
  } else {
    walk_all(state, space, found);
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

void TokenGrammar::walk_all(StateId state, StackSpace& space, StateTokens& found) const {
  const StackSpace::Mark mark = space.mark();
  // Not closed: what the state calls or skips to has results of its own.
  const Walk walk{trie(), space, space.single(state)};
  walk.read_below(
      TokenTrie::kRoot, [&](TokenId token) { found.list.push_back(token); },
      [&](std::uint32_t node) { found.exits.push_back(node); });
  space.release(mark);
}

// Takes over what is known of a state that reads most bytes alike, and walks where the first byte
// of the tokens leads elsewhere.
void TokenGrammar::walk_difference(StateId state, const StateTokens& known, StackSpace& space,
                                   StateTokens& found) const {
  found.bits = known.bits;
  const StackSpace::Mark mark = space.mark();
  const Walk walk{trie(), space, space.single(state)};
  auto exit = known.exits.begin();
  const auto keep_exits = [&](std::uint32_t below) {
    for (; exit != known.exits.end() && *exit < below; ++exit) found.exits.push_back(*exit);
  };
  for (std::uint32_t i = TokenTrie::kRoot + 1; i < trie().num_nodes(); i = trie().node(i).end) {
    const TokenTrie::Node& first = trie().node(i);
    if (grammar_.target(state, first.byte) == grammar_.target(grammar_.like(state), first.byte)) {
      continue;
    }
    keep_exits(i);
    while (exit != known.exits.end() && *exit < first.end) ++exit;
    for (std::uint32_t below = i; below < first.end; ++below) {
      const TokenId token = trie().node(below).token;
      if (token != TokenTrie::kNoToken) clear_bit(found.bits, token);
    }
    walk.read(
        i, first.end, [&](TokenId token) { set_bit(found.bits, token); },
        [&](std::uint32_t node) { found.exits.push_back(node); });
  }
  keep_exits(static_cast<std::uint32_t>(trie().num_nodes()));
  space.release(mark);
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
    const Walk walk{grammar_->trie(), space_, below};
    for (const std::uint32_t node : tokens.exits) {
      walk.read_below(
          node, [&](TokenId token) { set_bit(mask, token); }, [](std::uint32_t) {});
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
