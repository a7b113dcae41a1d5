// Shorthand for the tests of grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/tokenizer.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/stack_set.h"
#include "text/grammar/token_grammar.h"
#include "text/json_value.h"
#include "text/test_vocabulary.h"

namespace baltoro {

inline Grammar schema_grammar(std::string_view schema, SchemaStyle style = {}) {
  const JsonValue value = parse_json(schema, "schema");
  GrammarBuilder builder;
  const JsonRules rules = JsonRules::add_to(builder);
  SchemaCompiler compiler(builder, rules, {&value, "schema"}, style);
  const RuleId rule = compiler.rule(compiler.root());
  compiler.finish();
  return builder.build(rule);
}

enum class Reading { kDead, kAlive, kComplete };

// What a grammar says of a text, byte by byte.
class ByteReader {
 public:
  explicit ByteReader(const Grammar& grammar) : space_(grammar) {
    space_.open();
    space_.add(grammar.start(), space_.bottom());
    now_ = space_.close();
  }
  ByteReader& read(std::string_view text) {
    for (const char c : text) now_ = space_.read_byte(now_, static_cast<std::uint8_t>(c));
    return *this;
  }
  Reading state() const {
    if (now_.complete) return Reading::kComplete;
    return now_.alive() ? Reading::kAlive : Reading::kDead;
  }

 private:
  StackSpace space_;
  StackSpace::Range now_;
};

inline bool matches(const Grammar& grammar, std::string_view text) {
  return ByteReader(grammar).read(text).state() == Reading::kComplete;
}

// The grammar of a schema over a vocabulary; `end` may come where the text is whole.
inline std::shared_ptr<const TokenGrammar> schema_tokens(std::string_view schema,
                                                         const Tokenizer& tokenizer, TokenId end,
                                                         SchemaStyle style = {}) {
  auto base = std::make_shared<TokenGrammarBase>();
  base->trie = std::make_shared<const TokenTrie>(tokenizer);
  return std::make_shared<const TokenGrammar>(schema_grammar(schema, style), std::move(base),
                                              std::vector<TokenId>{end});
}

inline std::vector<std::uint64_t> mask_of(TokenConstraint& constraint, const Tokenizer& tokenizer) {
  std::vector<std::uint64_t> mask(static_cast<std::size_t>(tokenizer.vocab_size() + 63) / 64);
  constraint.allow(mask);
  return mask;
}

inline bool has(const std::vector<std::uint64_t>& mask, TokenId token) {
  return (mask[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

// Tokens as the released vocabularies have them: structure glued together, halves of characters.
inline Tokenizer glued_tokenizer() {
  return make_tokenizer(
      byte_tokens_and(
          {"{\"",        "\":",      "\": ",         "\":\"",    "\", \"",      "\",\"",
           "\"}",        "\"}}",     "\"]",          "},",       "},{",         "}]",
           "]}",         "[[",       "]]",           "[]",       "{}",          " {",
           "\n  ",       "\n    \"", "  ",           "    ",     "true",        "false",
           "null",       "tr",       "ue",           "12",       "123",         "0.",
           ".5",         "e1",       "-1",           "na",       "name",        "\"name",
           "\"name\"",   "name\":",  "a\"",          "\\\"",     "\\u",         "\\ud8",
           "00",         "\\n",      "\xC3\xA9",     "\xE2\x82", "\x82\xAC",    "\xF0\x9F",
           "\x98\x80\"", "\xA9\"",   "\xC3\xA9\xC3", "\"\xC3",   "\xFF\xFE",    "a\xC3\xA9\"}",
           "1}",         "1]",       "1,",           "\"\"",     "\"a\",\"b\"]"}),
      {"[BOS]", "[EOS]"});
}

}  // namespace baltoro
