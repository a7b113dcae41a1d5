#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

using Kind = GrammarEdge::Kind;

std::size_t idx(StateId state) { return static_cast<std::size_t>(state); }

// Indices of edges by a key in [0, num_keys).
class EdgeIndex {
 public:
  explicit EdgeIndex(std::size_t num_keys) : first_(num_keys + 1) {}
  void count(StateId key) { ++first_[idx(key) + 1]; }
  void end_counting() {
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    next_ = first_;
    edges_.resize(first_.back());
  }
  void add(StateId key, std::size_t edge) { edges_[next_[idx(key)]++] = edge; }
  std::span<const std::size_t> of(StateId key) const {
    return std::span(edges_).subspan(first_[idx(key)], first_[idx(key) + 1] - first_[idx(key)]);
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> edges_;
};

}  // namespace

StateId Grammar::target(StateId state, std::uint8_t byte) const {
  for (const GrammarEdge& edge : edges(state)) {
    const bool fits = edge.kind == Kind::kBytes && byte >= edge.low && byte <= edge.high;
    if (fits) return edge.target;
  }
  return kNone;
}

void Grammar::find_deterministic_states() {
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (!flags_[i].plain) continue;
    bool seen[256] = {};
    bool twice = false;
    for (const GrammarEdge& edge : edges(static_cast<StateId>(i))) {
      if (edge.kind != Kind::kBytes) continue;
      for (int byte = edge.low; byte <= edge.high; ++byte) {
        twice |= std::exchange(seen[byte], true);
      }
    }
    flags_[i].deterministic = !twice;
  }
}

RuleId GrammarBuilder::add_rule(std::string name) {
  rules_.push_back({std::move(name), 0});
  current_ = static_cast<RuleId>(rules_.size()) - 1;
  rules_.back().start = add_state();
  return current_;
}

void GrammarBuilder::check_size() const {
  if (final_.size() < kMaxStates && edges_.size() < kMaxEdges) return;
  fail(ErrorCode::kUnsupported,
       "{}: with this the grammar is larger than {} states and {} edges; ask for fewer or simpler "
       "values",
       rules_[idx(current_)].name, kMaxStates, kMaxEdges);
}

void GrammarBuilder::add_edge(StateId from, GrammarEdge edge) {
  check_size();
  edges_.push_back({from, edge});
}

StateId GrammarBuilder::add_state() {
  check_size();
  final_.push_back(false);
  like_.push_back(Grammar::kNone);
  return static_cast<StateId>(final_.size()) - 1;
}

void GrammarBuilder::bytes(StateId from, std::uint8_t low, std::uint8_t high, StateId to) {
  add_edge(from, {.kind = Kind::kBytes, .low = low, .high = high, .target = to});
}

void GrammarBuilder::token(StateId from, TokenId token, StateId to) {
  add_edge(from, {.kind = Kind::kToken, .value = token, .target = to});
}

void GrammarBuilder::call(StateId from, RuleId rule, StateId to) {
  add_edge(from, {.kind = Kind::kCall, .value = start(rule), .target = to});
}

void GrammarBuilder::skip(StateId from, StateId to) {
  add_edge(from, {.kind = Kind::kSkip, .target = to});
}

StateId GrammarBuilder::text(StateId from, std::string_view text) {
  for (const char c : text) {
    const StateId to = add_state();
    bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    from = to;
  }
  return from;
}

StateId GrammarBuilder::token(StateId from, TokenId token) {
  const StateId to = add_state();
  this->token(from, token, to);
  return to;
}

StateId GrammarBuilder::call(StateId from, RuleId rule) {
  const StateId to = add_state();
  call(from, rule, to);
  return to;
}

StateId GrammarBuilder::optional_call(StateId from, RuleId rule) {
  const StateId to = call(from, rule);
  skip(from, to);
  return to;
}

StateId GrammarBuilder::digits(StateId from, int least, int most) {
  const StateId to = add_state();
  for (int i = 0; i < most; ++i) {
    if (i >= least) skip(from, to);
    const StateId next = i + 1 == most ? to : add_state();
    bytes(from, '0', '9', next);
    from = next;
  }
  return to;
}

void GrammarBuilder::one_of(StateId from, std::span<const std::string> texts, StateId to) {
  std::vector<std::string_view> sorted(texts.begin(), texts.end());
  std::ranges::sort(sorted);
  // The states of the text before, of which the next one shares as many as it can.
  std::vector<StateId> path = {from};
  std::string_view before;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::string_view text = sorted[i];
    if (i > 0 && text == before) continue;
    const auto shared =
        static_cast<std::size_t>(std::ranges::mismatch(text, before).in1 - text.begin());
    path.resize(shared + 1);
    for (const char c : text.substr(shared)) {
      path.push_back(this->text(path.back(), std::string_view(&c, 1)));
    }
    skip(path.back(), to);
    before = text;
  }
}

// States from which the end of their rule can be reached.
std::vector<bool> GrammarBuilder::find_productive() const {
  EdgeIndex into(num_states()), calls(num_states());
  for (const auto& [from, edge] : edges_) {
    into.count(edge.target);
    if (edge.kind == Kind::kCall) calls.count(edge.value);
  }
  into.end_counting();
  calls.end_counting();
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    into.add(edges_[i].edge.target, i);
    if (edges_[i].edge.kind == Kind::kCall) calls.add(edges_[i].edge.value, i);
  }
  std::vector<bool> productive(num_states());
  std::vector<StateId> work;
  const auto mark = [&](StateId state) {
    if (productive[idx(state)]) return;
    productive[idx(state)] = true;
    work.push_back(state);
  };
  for (std::size_t i = 0; i < num_states(); ++i) {
    if (final_[i]) mark(static_cast<StateId>(i));
  }
  while (!work.empty()) {
    const StateId state = work.back();
    work.pop_back();
    for (const std::size_t i : into.of(state)) {
      const GrammarEdge& edge = edges_[i].edge;
      if (edge.kind != Kind::kCall || productive[idx(edge.value)]) mark(edges_[i].from);
    }
    for (const std::size_t i : calls.of(state)) {
      if (productive[idx(edges_[i].edge.target)]) mark(edges_[i].from);
    }
  }
  return productive;
}

// Removes rules that begin with no other one until none is left; what stays begins with itself.
void GrammarBuilder::check_left_recursion(const Grammar& grammar) const {
  std::vector<std::vector<StateId>> begin_with(num_states());  // by first state: rules with it
  std::vector<int> num_left(num_states());
  std::vector<StateId> seen_for(num_states(), -1);
  for (const Rule& rule : rules_) {
    std::vector<StateId> work = {rule.start};
    seen_for[idx(rule.start)] = rule.start;
    while (!work.empty()) {
      const StateId state = work.back();
      work.pop_back();
      BALTORO_CHECK(!grammar.is_final(state), "rule {} can be empty", rule.name);
      for (const GrammarEdge& edge : grammar.edges(state)) {
        if (edge.kind == Kind::kCall) {
          begin_with[idx(edge.value)].push_back(rule.start);
          ++num_left[idx(rule.start)];
        } else if (edge.kind == Kind::kSkip && seen_for[idx(edge.target)] != rule.start) {
          seen_for[idx(edge.target)] = rule.start;
          work.push_back(edge.target);
        }
      }
    }
  }
  std::vector<StateId> work;
  for (const Rule& rule : rules_) {
    if (num_left[idx(rule.start)] == 0) work.push_back(rule.start);
  }
  std::size_t num_removed = 0;
  while (!work.empty()) {
    const StateId start = work.back();
    work.pop_back();
    ++num_removed;
    for (const StateId rule : begin_with[idx(start)]) {
      if (--num_left[idx(rule)] == 0) work.push_back(rule);
    }
  }
  if (num_removed == rules_.size()) return;
  const auto left =
      std::ranges::find_if(rules_, [&](const Rule& rule) { return num_left[idx(rule.start)] > 0; });
  fail(ErrorCode::kUnsupported, "{}: it leads back to itself with nothing in between", left->name);
}

Grammar GrammarBuilder::build(RuleId start) const {
  const std::vector<bool> productive = find_productive();
  Grammar grammar;
  grammar.start_ = this->start(start);
  grammar.like_ = like_;
  if (!productive[idx(grammar.start_)]) {
    fail(ErrorCode::kUnsupported, "{}: no value that ends can satisfy it", rules_[idx(start)].name);
  }
  const auto keeps = [&](const GrammarEdge& edge) {
    return productive[idx(edge.target)] &&
           (edge.kind != Kind::kCall || productive[idx(edge.value)]);
  };
  grammar.flags_.resize(num_states());
  grammar.first_edge_.resize(num_states() + 1);
  for (std::size_t i = 0; i < num_states(); ++i) {
    grammar.flags_[i].final = final_[i];
    grammar.flags_[i].plain = !final_[i];
  }
  for (const auto& [from, edge] : edges_) {
    if (keeps(edge)) ++grammar.first_edge_[idx(from) + 1];
  }
  for (std::size_t i = 0; i < num_states(); ++i) {
    grammar.first_edge_[i + 1] += grammar.first_edge_[i];
  }
  grammar.edges_.resize(grammar.first_edge_.back());
  std::vector<std::uint32_t> next = grammar.first_edge_;
  for (const auto& [from, edge] : edges_) {
    if (!keeps(edge)) continue;
    grammar.edges_[next[idx(from)]++] = edge;
    const bool consumes = edge.kind == Kind::kBytes || edge.kind == Kind::kToken;
    grammar.flags_[idx(from)].consumes |= consumes;
    grammar.flags_[idx(from)].plain &= consumes;
  }
  for (GrammarEdge& edge : grammar.edges_) {
    edge.is_tail = edge.kind == Kind::kCall && grammar.is_final(edge.target) &&
                   grammar.edges(edge.target).empty();
  }
  grammar.find_deterministic_states();
  check_left_recursion(grammar);
  return grammar;
}

}  // namespace baltoro
