// What the parsers of both formats share: the markers of an answer, and the collector that turns
// their findings into deltas and the result.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/chat.h"

namespace baltoro {

// The special ids that mean something in an answer; all others are neither marker nor text.
enum class ChatMarker : unsigned char {
  kOpen,  // XTML
  kClose,
  kSep,
  kThinkBegin,  // K2
  kThinkEnd,
  kSectionBegin,
  kSectionEnd,
  kCallBegin,
  kCallArgument,
  kCallEnd,
  kEnd,  // both: the ids that end an answer
};

// Collects an answer twice, as deltas since the last take_deltas() and as the result so far. At
// most one call is open at a time.
class AnswerCollector {
 public:
  void reasoning(std::string_view text) {
    result_.reasoning += text;
    add_text(ChatDelta::Kind::kReasoning, text);
  }

  void content(std::string_view text) {
    result_.content += text;
    add_text(ChatDelta::Kind::kContent, text);
  }

  void start_call(std::string id, std::string name) {
    deltas_.push_back({ChatDelta::Kind::kToolCallStart, {}, num_started_, id, name});
    call_ = {std::move(id), std::move(name), {}, ArgumentsForm::kText};
    ++num_started_;
  }

  void arguments(std::string_view text) {
    call_.arguments += text;
    add_text(ChatDelta::Kind::kToolCallArguments, text, num_started_ - 1);
  }

  // The open call is complete; a call that is never ended does not enter the result.
  void end_call() {
    deltas_.push_back({ChatDelta::Kind::kToolCallEnd, {}, num_started_ - 1, {}, {}});
    result_.tool_calls.push_back(std::move(call_));
  }

  const ToolCall& open_call() const { return call_; }
  int num_started() const { return num_started_; }

  void finish(bool ended) {
    if (!ended) {
      result_.finish_reason = FinishReason::kLength;
    } else {
      result_.finish_reason =
          result_.tool_calls.empty() ? FinishReason::kStop : FinishReason::kToolCalls;
    }
  }

  std::vector<ChatDelta> take_deltas() { return std::exchange(deltas_, {}); }
  const ChatResult& result() const { return result_; }

 private:
  void add_text(ChatDelta::Kind kind, std::string_view text, int call_idx = -1) {
    if (text.empty()) return;
    const bool same = !deltas_.empty() && deltas_.back().kind == kind;
    if (same && deltas_.back().call_idx == call_idx) {
      deltas_.back().text += text;
    } else {
      deltas_.push_back({kind, std::string(text), call_idx, {}, {}});
    }
  }

  ChatResult result_;
  ToolCall call_;
  int num_started_ = 0;
  std::vector<ChatDelta> deltas_;
};

// A parser of one format. Texts are whole, well-formed UTF-8 characters.
class ChatOutputParser {
 public:
  virtual ~ChatOutputParser() = default;
  virtual void text(std::string_view text) = 0;
  virtual void marker(ChatMarker marker) = 0;

  bool ended() const { return ended_; }
  AnswerCollector& answer() { return answer_; }
  const AnswerCollector& answer() const { return answer_; }

 protected:
  AnswerCollector answer_;
  bool ended_ = false;
};

}  // namespace baltoro
