// Well-formed UTF-8 as an automaton (Unicode 15, table 3-7), for rules that match text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"

namespace baltoro {

// The characters of a text but for some ASCII ones.
struct TextSet {
  std::string_view without;  // ASCII characters that may not stand in it
  bool control_characters;   // whether those below U+0020 may
  bool contains(std::string_view text) const;
};

// Adds edges that read one character of `set` at `state` and come back to it. The states inside of
// a character are new.
void add_text_loop(GrammarBuilder& builder, StateId state, const TextSet& set);

// A rule for any text of `set` and then `end`, an ASCII character that is not in the set.
struct EndedText {
  TextSet set;
  std::uint8_t end;
  std::array<StateId, 8> states;  // of the loop; the first one is between characters
  StateId last;                   // behind `end`
  RuleId rule;
};
EndedText add_ended_text(GrammarBuilder& builder, const TextSet& set, char end);

// The same without the texts in `excluded`, as the rest of a rule from `from` on; what is different
// from all of them goes on in the rule of `text`. Excluded texts with characters that are not in the
// set change nothing.
void add_other_text(GrammarBuilder& builder, StateId from, std::span<const std::string> excluded,
                    const EndedText& text);

}  // namespace baltoro
