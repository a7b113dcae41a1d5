// The whole answer of a chat format as a grammar: reasoning, content and calls with the markers
// between them, as a request wants them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "baltoro/chat.h"
#include "text/chat_output.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/token_grammar.h"

namespace baltoro {

// A tool of a request.
struct DeclaredTool {
  std::string name;
  PlacedSchema parameters;  // without a value: it has no arguments
  bool strict = false;      // keywords of the schema that are not supported are refused
};

// What an answer must be.
struct AnswerShape {
  bool thinking = false;
  bool is_json = false;
  PlacedSchema schema;  // of the content, where is_json; without a value: any object
  enum class Calls { kNone, kAllowed, kRequired } calls = Calls::kNone;
  bool one_call = false;
  std::vector<DeclaredTool> tools;
};

// What grammars of one format start from.
struct FormatGrammar {
  GrammarBuilder builder;
  JsonRules json;
  RuleId text_argument;  // XTML: text, and the closer behind it
  EndedText plain_key;   // XTML: the name of an argument, without escapes, and the quote behind it
};

// Ids of the markers of a format; -1 for those of the other one.
class MarkerIds {
 public:
  explicit MarkerIds(const std::vector<std::pair<TokenId, ChatMarker>>& markers)
      : markers_(markers) {}
  // The first id of the marker; there must be one.
  TokenId operator[](ChatMarker marker) const;

 private:
  const std::vector<std::pair<TokenId, ChatMarker>>& markers_;
};

FormatGrammar make_xtml_base(const MarkerIds& ids);
FormatGrammar make_k2_base();

// Adds the rule of the answer. Throws as SchemaCompiler.
RuleId add_xtml_answer(FormatGrammar& base, const MarkerIds& ids, const AnswerShape& shape);
RuleId add_k2_answer(FormatGrammar& base, const MarkerIds& ids, const AnswerShape& shape);

// The grammars of one vocabulary and format; keeps those that were asked for last, since requests
// repeat their tools and schemas. Safe to use from many threads at once.
class ChatGrammars {
 public:
  ChatGrammars(Tokenizer tokenizer, ChatFormat::Kind kind,
               std::vector<std::pair<TokenId, ChatMarker>> markers);

  // The grammar of the answer, or null where every answer will do.
  std::shared_ptr<const TokenGrammar> find(const Conversation& conversation);

 private:
  static constexpr std::size_t kMaxKept = 16;

  void prepare();
  std::shared_ptr<const TokenGrammar> compile(const Conversation& conversation) const;

  Tokenizer tokenizer_;
  ChatFormat::Kind kind_;
  std::vector<std::pair<TokenId, ChatMarker>> markers_;
  std::once_flag prepared_;
  FormatGrammar format_;
  std::shared_ptr<TokenGrammarBase> base_;
  std::mutex mutex_;
  // By what decides about the grammar, the one asked for last in front.
  std::list<std::pair<std::string, std::shared_ptr<const TokenGrammar>>> kept_;
};

}  // namespace baltoro
