// Answers of the K2 format:
//   [<think> reasoning </think>] content [section {call id, arguments}] <|im_end|>
#include "text/grammar/answer_grammar.h"
#include "text/grammar/chat_grammar.h"

namespace baltoro {
namespace {

using Calls = AnswerShape::Calls;

// Four digits number more calls than a context holds.
constexpr int kMaxCallDigits = 4;

class K2Answer {
 public:
  K2Answer(FormatGrammar& format, const MarkerIds& ids, const AnswerShape& shape)
      : b_(format.builder), ids_(ids), shape_(shape), schemas_(format) {}

  RuleId add() {
    const RuleId rule = b_.add_rule("answer");
    const StateId content = shape_.thinking ? think(b_.start(rule)) : b_.start(rule);
    end_ = b_.add_state();
    b_.set_final(end_);
    const StateId calls = shape_.calls == Calls::kNone ? content : this->calls();
    if (shape_.is_json) {
      const StateId behind = b_.call(content, schemas_.content(shape_));
      close(behind, calls);
      // Calls may stand without an answer before them.
      if (shape_.calls != Calls::kNone) begin_calls(content, calls);
    } else {
      any_text(b_, content);
      close(content, calls);
    }
    schemas_.finish();
    return rule;
  }

 private:
  StateId think(StateId from) {
    const StateId reasoning = b_.token(from, ids_[ChatMarker::kThinkBegin]);
    any_text(b_, reasoning);
    return b_.token(reasoning, ids_[ChatMarker::kThinkEnd]);
  }

  void begin_calls(StateId from, StateId calls) {
    b_.token(from, ids_[ChatMarker::kSectionBegin], calls);
  }

  void close(StateId from, StateId calls) {
    if (shape_.calls != Calls::kRequired) b_.token(from, ids_[ChatMarker::kEnd], end_);
    if (shape_.calls != Calls::kNone) begin_calls(from, calls);
  }

  // From behind the opener of the section to the end of the answer.
  StateId calls() {
    const StateId first = b_.add_state(), behind = b_.add_state();
    const StateId header = b_.token(first, ids_[ChatMarker::kCallBegin]);
    const StateId name = b_.text(header, "functions.");
    for (const DeclaredTool& tool : shape_.tools) {
      const StateId number = b_.digits(b_.text(name, tool.name + ":"), 1, kMaxCallDigits);
      arguments(b_.token(number, ids_[ChatMarker::kCallArgument]), tool, behind);
    }
    if (!shape_.one_call) b_.token(behind, ids_[ChatMarker::kCallBegin], header);
    b_.token(b_.token(behind, ids_[ChatMarker::kSectionEnd]), ids_[ChatMarker::kEnd], end_);
    return first;
  }

  void arguments(StateId from, const DeclaredTool& tool, StateId to) {
    const auto [compiler, parts] = schemas_.arguments(tool);
    const StateId end = compiler == nullptr ? b_.text(from, "{}") : b_.add_state();
    for (const SchemaPart& part : parts) b_.call(from, compiler->rule(part), end);
    b_.token(end, ids_[ChatMarker::kCallEnd], to);
  }

  GrammarBuilder& b_;
  const MarkerIds& ids_;
  const AnswerShape& shape_;
  AnswerSchemas schemas_;
  StateId end_ = 0;
};

}  // namespace

FormatGrammar make_k2_base() {
  FormatGrammar format{};
  format.json = JsonRules::add_to(format.builder);
  return format;
}

RuleId add_k2_answer(FormatGrammar& format, const MarkerIds& ids, const AnswerShape& shape) {
  return K2Answer(format, ids, shape).add();
}

}  // namespace baltoro
