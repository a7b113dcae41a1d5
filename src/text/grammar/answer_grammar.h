// What the answers of both formats have in common.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "text/grammar/chat_grammar.h"

namespace baltoro {

// Adds a loop that reads any ordinary token.
inline void any_text(GrammarBuilder& builder, StateId state) {
  builder.bytes(state, 0, 255, state);
}

// The schemas of an answer, compiled into the grammar of its format.
class AnswerSchemas {
 public:
  explicit AnswerSchemas(FormatGrammar& format) : format_(format) {}

  // The rule of the content, which is JSON.
  RuleId content(const AnswerShape& shape);

  // The parts of a tool's parameters, which are objects, with their compiler; none for a tool
  // without parameters.
  struct Arguments {
    SchemaCompiler* compiler = nullptr;
    std::vector<SchemaPart> parts;
  };
  Arguments arguments(const DeclaredTool& tool);

  // Fills all rules.
  void finish();

 private:
  FormatGrammar& format_;
  std::deque<SchemaCompiler> compilers_;
};

}  // namespace baltoro
