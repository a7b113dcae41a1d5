#include "text/grammar/utf8_grammar.h"

#include <algorithm>
#include <map>
#include <vector>

namespace baltoro {
namespace {

// A byte in [low, high] leads to the state `next`; kWhole is between characters.
struct Step {
  int low, high, next;
};

constexpr int kWhole = 0;
constexpr int kOneMore = 1;  // any continuation byte, then the character is whole
constexpr int kTwoMore = 2;
constexpr int kThreeMore = 3;
constexpr int kAfterE0 = 4;  // no overlong forms
constexpr int kAfterEd = 5;  // no surrogates
constexpr int kAfterF0 = 6;
constexpr int kAfterF4 = 7;  // nothing above U+10FFFF
constexpr int kNumStates = 8;

std::vector<Step> steps_of(int state, const TextSet& set) {
  switch (state) {
    case kOneMore:
      return {{0x80, 0xBF, kWhole}};
    case kTwoMore:
      return {{0x80, 0xBF, kOneMore}};
    case kThreeMore:
      return {{0x80, 0xBF, kTwoMore}};
    case kAfterE0:
      return {{0xA0, 0xBF, kOneMore}};
    case kAfterEd:
      return {{0x80, 0x9F, kOneMore}};
    case kAfterF0:
      return {{0x90, 0xBF, kTwoMore}};
    case kAfterF4:
      return {{0x80, 0x8F, kTwoMore}};
    default:
      break;
  }
  std::vector<Step> steps;
  int low = set.control_characters ? 0 : 0x20;
  for (int c = low; c <= 0x80; ++c) {
    if (c < 0x80 && set.without.find(static_cast<char>(c)) == std::string_view::npos) continue;
    if (low < c) steps.push_back({low, c - 1, kWhole});
    low = c + 1;
  }
  steps.insert(steps.end(), {{0xC2, 0xDF, kOneMore},
                             {0xE0, 0xE0, kAfterE0},
                             {0xE1, 0xEC, kTwoMore},
                             {0xED, 0xED, kAfterEd},
                             {0xEE, 0xEF, kTwoMore},
                             {0xF0, 0xF0, kAfterF0},
                             {0xF1, 0xF3, kThreeMore},
                             {0xF4, 0xF4, kAfterF4}});
  return steps;
}

using States = std::array<StateId, kNumStates>;

void add_steps(GrammarBuilder& builder, StateId from, int low, int high, StateId to) {
  if (low > high) return;
  builder.bytes(from, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), to);
}

States add_loop(GrammarBuilder& builder, StateId whole, const TextSet& set) {
  States states{whole};
  for (int i = 1; i < kNumStates; ++i) states[static_cast<std::size_t>(i)] = builder.add_state();
  for (int i = 0; i < kNumStates; ++i) {
    for (const Step& step : steps_of(i, set)) {
      add_steps(builder, states[static_cast<std::size_t>(i)], step.low, step.high,
                states[static_cast<std::size_t>(step.next)]);
    }
  }
  return states;
}

// Where a byte leads from a state of the automaton; it must lead somewhere.
int next_of(int state, std::uint8_t byte, const TextSet& set) {
  for (const Step& step : steps_of(state, set)) {
    if (byte >= step.low && byte <= step.high) return step.next;
  }
  return kWhole;
}

// The tree of the excluded texts.
struct Branch {
  StateId state = 0;
  int utf8 = kWhole;
  bool ends = false;
  std::map<std::uint8_t, std::size_t> children;
};

std::vector<Branch> make_tree(GrammarBuilder& builder, StateId from,
                              std::span<const std::string> texts, const TextSet& set) {
  std::vector<Branch> tree = {{from, kWhole, false, {}}};
  for (const std::string& text : texts) {
    if (!set.contains(text)) continue;
    std::size_t at = 0;
    for (const char c : text) {
      const auto byte = static_cast<std::uint8_t>(c);
      const auto [child, inserted] = tree[at].children.emplace(byte, tree.size());
      const std::size_t next = child->second;
      if (inserted) {
        tree.push_back({builder.add_state(), next_of(tree[at].utf8, byte, set), false, {}});
      }
      at = next;
    }
    tree[at].ends = true;
  }
  return tree;
}

}  // namespace

bool TextSet::contains(std::string_view text) const {
  return std::ranges::all_of(text, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return without.find(c) == std::string_view::npos && (control_characters || byte >= 0x20);
  });
}

void add_text_loop(GrammarBuilder& builder, StateId state, const TextSet& set) {
  add_loop(builder, state, set);
}

EndedText add_ended_text(GrammarBuilder& builder, const TextSet& set, char end) {
  EndedText text{.set = set,
                 .end = static_cast<std::uint8_t>(end),
                 .states = {},
                 .last = 0,
                 .rule = builder.add_rule("text")};
  text.states = add_loop(builder, builder.start(text.rule), set);
  text.last = builder.text(text.states[kWhole], std::string_view(&end, 1));
  builder.set_final(text.last);
  return text;
}

void add_other_text(GrammarBuilder& builder, StateId from, std::span<const std::string> excluded,
                    const EndedText& text) {
  const std::vector<Branch> tree = make_tree(builder, from, excluded, text.set);
  for (const Branch& branch : tree) {
    for (const auto& [byte, child] : branch.children) {
      builder.bytes(branch.state, byte, byte, tree[child].state);
    }
    if (branch.utf8 == kWhole) {
      builder.set_like(branch.state, text.states[kWhole]);
      if (!branch.ends) builder.bytes(branch.state, text.end, text.end, text.last);
    }
    // What leaves the tree is different from all excluded texts.
    for (const Step& step : steps_of(branch.utf8, text.set)) {
      const StateId target = text.states[static_cast<std::size_t>(step.next)];
      int low = step.low;
      for (const auto& [byte, child] : branch.children) {
        if (byte < step.low || byte > step.high) continue;
        add_steps(builder, branch.state, low, byte - 1, target);
        low = byte + 1;
      }
      add_steps(builder, branch.state, low, step.high, target);
    }
  }
}

}  // namespace baltoro
