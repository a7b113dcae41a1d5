// Answers of XTML, from within the channel that the prompt has opened:
//   [reasoning CLOSE think SEP OPEN response SEP] content CLOSE response SEP
//   [OPEN tools SEP {call} CLOSE tools SEP] CLOSE message SEP END
#include <string>
#include <string_view>

#include "text/grammar/answer_grammar.h"
#include "text/grammar/chat_grammar.h"
#include "text/grammar/utf8_grammar.h"
#include "text/json_print.h"

namespace baltoro {
namespace {

using Calls = AnswerShape::Calls;

constexpr int kMaxIndexDigits = 4;

// Names of arguments that no property has: what an attribute shows as it is.
constexpr TextSet kPlainAttribute{"\"&", false};

std::string attribute(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view type_name(SchemaType type) {
  switch (type) {
    case SchemaType::kNull:
      return "null";
    case SchemaType::kBoolean:
      return "boolean";
    case SchemaType::kInteger:
    case SchemaType::kNumber:
      return "number";
    case SchemaType::kString:
      return "string";
    case SchemaType::kObject:
      return "object";
    case SchemaType::kArray:
      return "array";
  }
  return "string";
}

class XtmlAnswer {
 public:
  XtmlAnswer(FormatGrammar& format, const MarkerIds& ids, const AnswerShape& shape)
      : format_(format),
        b_(format.builder),
        open_(ids[ChatMarker::kOpen]),
        close_(ids[ChatMarker::kClose]),
        sep_(ids[ChatMarker::kSep]),
        shape_(shape),
        schemas_(format) {
    end_ = ids[ChatMarker::kEnd];
  }

  RuleId add() {
    const RuleId rule = b_.add_rule("answer");
    StateId content = b_.start(rule);
    if (shape_.thinking) {
      any_text(b_, content);
      content = open(rest_of_close(b_.token(content, close_), "think"), "response");
    }
    const StateId last = b_.add_state();  // where the message closes
    const StateId with_calls = shape_.calls == Calls::kNone ? last : calls(last);
    if (shape_.is_json) {
      const StateId behind = b_.call(content, schemas_.content(shape_));
      close_content(behind, shape_.calls != Calls::kRequired, with_calls, last);
      // Calls may stand without an answer before them.
      if (shape_.calls != Calls::kNone) close_content(content, false, with_calls, last);
    } else {
      any_text(b_, content);
      close_content(content, shape_.calls != Calls::kRequired, with_calls, last);
    }
    b_.set_final(b_.token(close(last, "message"), end_));
    schemas_.finish();
    return rule;
  }

 private:
  StateId open(StateId from, std::string_view tag) {
    return b_.token(b_.text(b_.token(from, open_), tag), sep_);
  }
  StateId close(StateId from, std::string_view tag) {
    return rest_of_close(b_.token(from, close_), tag);
  }
  StateId rest_of_close(StateId from, std::string_view tag) {
    return b_.token(b_.text(from, tag), sep_);
  }

  void close_content(StateId from, bool may_end, StateId calls, StateId last) {
    const StateId behind = close(from, "response");
    if (may_end) b_.skip(behind, last);
    if (shape_.calls != Calls::kNone) b_.skip(behind, calls);
  }

  // From before the opener of the channel; behind it comes `last`.
  StateId calls(StateId last) {
    const StateId start = b_.add_state(), behind = b_.add_state();
    const StateId first = open(start, "tools");
    const StateId tag = b_.text(b_.token(first, open_), "call tool=\"");
    for (const DeclaredTool& tool : shape_.tools) {
      const StateId index = b_.text(tag, attribute(tool.name) + "\" index=\"");
      const StateId digit = b_.add_state();
      b_.bytes(index, '1', '9', digit);
      const StateId body = b_.token(b_.text(b_.digits(digit, 0, kMaxIndexDigits - 1), "\""), sep_);
      b_.skip(close(arguments(body, tool), "call"), behind);
    }
    if (!shape_.one_call) b_.skip(behind, first);
    b_.skip(close(behind, "tools"), last);
    return start;
  }

  StateId arguments(StateId from, const DeclaredTool& tool) {
    const auto [compiler, parts] = schemas_.arguments(tool);
    const StateId end = b_.add_state();
    if (compiler == nullptr) b_.skip(from, end);
    for (const SchemaPart& part : parts) {
      const SchemaObject object = compiler->object(part);
      StateId at = b_.add_state();
      b_.skip(from, at);
      std::vector<std::string> names;
      for (const SchemaProperty& property : object.properties) {
        names.push_back(attribute(property.name));
        const StateId key = b_.text(argument(at), names.back() + "\"");
        const StateId next = b_.add_state();
        value(key, *compiler, property.schema, next);
        if (!property.required) b_.skip(at, next);
        at = next;
      }
      if (object.has_others) {
        const RuleId name = b_.add_rule("other argument");
        add_other_text(b_, b_.start(name), names, format_.plain_key);
        value(b_.call(argument(at), name), *compiler, object.others, at);
      }
      b_.skip(at, end);
    }
    return end;
  }

  StateId argument(StateId from) { return b_.text(b_.token(from, open_), "argument key=\""); }

  // From behind the key to behind the closer of the element.
  void value(StateId from, SchemaCompiler& compiler, const PlacedSchema& schema, StateId to) {
    const StateId type = b_.text(from, " type=\"");
    const StateId behind = b_.add_state();  // the closing marker has been read
    for (const SchemaPart& part : compiler.parts(schema)) {
      const std::string name(type_name(part.type));
      const StateId body = b_.token(b_.text(type, name + "\""), sep_);
      if (part.type == SchemaType::kString && part.only.empty()) {
        b_.call(body, format_.text_argument, behind);
        continue;
      }
      const StateId end = b_.add_state();
      if (part.type == SchemaType::kString) {
        std::vector<std::string> texts;
        for (const JsonValue* only : part.only) texts.push_back(only->text);
        b_.one_of(body, texts, end);
      } else {
        b_.call(body, compiler.rule(part), end);
      }
      b_.token(end, close_, behind);
    }
    b_.skip(rest_of_close(behind, "argument"), to);
  }

  FormatGrammar& format_;
  GrammarBuilder& b_;
  TokenId open_, close_, sep_, end_ = 0;
  const AnswerShape& shape_;
  AnswerSchemas schemas_;
};

}  // namespace

FormatGrammar make_xtml_base(const MarkerIds& ids) {
  FormatGrammar format{};
  format.json = JsonRules::add_to(format.builder);
  format.text_argument = format.builder.add_rule("text");
  const StateId text = format.builder.start(format.text_argument);
  add_text_loop(format.builder, text, {.without = {}, .control_characters = true});
  format.builder.set_final(format.builder.token(text, ids[ChatMarker::kClose]));
  format.plain_key = add_ended_text(format.builder, kPlainAttribute, '"');
  return format;
}

RuleId add_xtml_answer(FormatGrammar& format, const MarkerIds& ids, const AnswerShape& shape) {
  return XtmlAnswer(format, ids, shape).add();
}

}  // namespace baltoro
