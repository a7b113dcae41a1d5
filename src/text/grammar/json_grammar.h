// JSON as rules of a grammar, the part that does not depend on a schema.
//
// White space is what keeps a model from never ending, so it is bounded: behind { [ , and before
// } ] nothing, one space, or a line feed with an indentation; behind : nothing or one space. Numbers
// have at most 19 digits, 20 behind the point and 2 in the exponent, so that every reader holds
// them; strings are valid UTF-8 and escape surrogates in pairs only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"
#include "text/grammar/utf8_grammar.h"

namespace baltoro {

struct JsonRules {
  RuleId space, string, number, integer, value, object, array;
  EndedText plain_name;  // the name of a property behind its first quote, without escapes

  static JsonRules add_to(GrammarBuilder& builder);
};

// What may stand in a JSON string as it is.
inline constexpr TextSet kJsonText{"\"\\", false};

// A colon and the space behind it.
StateId json_colon(GrammarBuilder& builder, StateId from);

}  // namespace baltoro
