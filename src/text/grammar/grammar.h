// A grammar over bytes and special tokens, as a network of automata that call each other: a rule is
// an automaton, and an edge consumes a byte, consumes a special token, calls a rule or is free.
// Ordinary text is matched byte by byte, so that it does not matter how tokens cut it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/types.h"

namespace baltoro {

using StateId = std::int32_t;
using RuleId = std::int32_t;

struct GrammarEdge {
  enum class Kind : std::uint8_t {
    kBytes,  // a byte in [low, high]
    kToken,  // the special token `value`
    kCall,   // the rule that starts at state `value`
    kSkip,   // nothing
  };

  Kind kind;
  std::uint8_t low = 0;
  std::uint8_t high = 0;
  bool is_tail = false;  // kCall: nothing follows in the calling rule
  std::int32_t value = 0;
  StateId target = 0;
};

// Immutable. Every state leads to an end, no rule is empty, and none begins with itself: so a
// matcher that is still alive can always finish, and reading nothing takes finitely many steps.
class Grammar {
 public:
  std::span<const GrammarEdge> edges(StateId state) const {
    const auto i = static_cast<std::size_t>(state);
    return std::span(edges_).subspan(first_edge_[i], first_edge_[i + 1] - first_edge_[i]);
  }
  // Whether a rule may end here.
  bool is_final(StateId state) const { return flags_[static_cast<std::size_t>(state)].final; }
  // Whether nothing happens here before a byte or a token is read.
  bool is_plain(StateId state) const { return flags_[static_cast<std::size_t>(state)].plain; }
  // Plain, and no byte can be read in two ways.
  bool is_deterministic(StateId state) const {
    return flags_[static_cast<std::size_t>(state)].deterministic;
  }
  // Whether a byte or a token can be read here.
  bool consumes(StateId state) const { return flags_[static_cast<std::size_t>(state)].consumes; }

  // A state that reads most bytes as this one does, deterministic like it, or kNone.
  static constexpr StateId kNone = -1;
  StateId like(StateId state) const { return like_[static_cast<std::size_t>(state)]; }
  // Where a byte leads from a deterministic state, or kNone.
  StateId target(StateId state, std::uint8_t byte) const;

  StateId start() const { return start_; }
  std::size_t num_states() const { return flags_.size(); }
  std::size_t num_edges() const { return edges_.size(); }
  // `edge` is one of edges().
  std::size_t index_of(const GrammarEdge& edge) const {
    return static_cast<std::size_t>(&edge - edges_.data());
  }

 private:
  friend class GrammarBuilder;
  struct Flags {
    bool final = false;
    bool plain = true;
    bool consumes = false;
    bool deterministic = false;
  };

  void find_deterministic_states();

  std::vector<GrammarEdge> edges_;
  std::vector<std::uint32_t> first_edge_;  // [states + 1]
  std::vector<Flags> flags_;
  std::vector<StateId> like_;
  StateId start_ = 0;
};

// Writes a grammar state by state. Copies are independent; states and rules that a copy was given
// keep their numbers in all that is built from it.
class GrammarBuilder {
 public:
  // Far more than schemas that people write; small enough that nobody waits for what they do not.
  static constexpr std::size_t kMaxStates = 100000;
  static constexpr std::size_t kMaxEdges = 400000;

  // A rule with its first state. `name` stands in messages. States that follow are made on its
  // behalf.
  RuleId add_rule(std::string name);
  // States that follow are made on behalf of `rule`.
  void go_on_with(RuleId rule) { current_ = rule; }
  StateId start(RuleId rule) const { return rules_[static_cast<std::size_t>(rule)].start; }

  // This and what adds edges throw Error{kUnsupported}, naming the rule, above the limits.
  StateId add_state();
  void set_final(StateId state) { final_[static_cast<std::size_t>(state)] = true; }

  // Says that `state` reads most bytes as `other` does: what is known of that one then serves here.
  void set_like(StateId state, StateId other) { like_[static_cast<std::size_t>(state)] = other; }

  void bytes(StateId from, std::uint8_t low, std::uint8_t high, StateId to);
  void token(StateId from, TokenId token, StateId to);
  void call(StateId from, RuleId rule, StateId to);
  void skip(StateId from, StateId to);

  // The same with a new state behind, which is returned.
  StateId text(StateId from, std::string_view text);
  StateId token(StateId from, TokenId token);
  StateId call(StateId from, RuleId rule);
  StateId optional_call(StateId from, RuleId rule);
  // [0-9], `least` to `most` times.
  StateId digits(StateId from, int least, int most);

  // One of the texts, which may share their beginnings; ends in `to`.
  void one_of(StateId from, std::span<const std::string> texts, StateId to);

  std::size_t num_states() const { return final_.size(); }

  // The grammar of what `start` matches, without what leads nowhere. Throws Error{kUnsupported}
  // naming the rule: where a rule begins with itself, and where no finite text matches `start`.
  Grammar build(RuleId start) const;

 private:
  struct Rule {
    std::string name;
    StateId start;
  };
  struct SourceEdge {
    StateId from;
    GrammarEdge edge;
  };

  void add_edge(StateId from, GrammarEdge edge);
  void check_size() const;
  std::vector<bool> find_productive() const;
  void check_left_recursion(const Grammar& grammar) const;

  std::vector<Rule> rules_;
  std::vector<bool> final_;
  std::vector<StateId> like_;
  std::vector<SourceEdge> edges_;
  RuleId current_ = 0;
};

}  // namespace baltoro
