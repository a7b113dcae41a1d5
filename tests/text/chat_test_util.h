// Shorthand for the tests of the chat formats.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/error.h"
#include "text/test_vocabulary.h"

namespace baltoro {

inline std::vector<std::string> xtml_specials() {
  return {"[BOS]", "[EOS]",           "<|end_of_msg|>", "<|open|>", "<|close|>",       "<|sep|>",
          "[EOT]", "<|media_begin|>", "<|media_pad|>",  "[PAD]",    "<|osagent_mode|>"};
}

inline std::vector<std::string> k2_specials(bool thinking) {
  std::vector<std::string> names = {"[BOS]",
                                    "[EOS]",
                                    "<|im_end|>",
                                    "<|im_user|>",
                                    "<|im_assistant|>",
                                    "[EOT]",
                                    "<|im_system|>",
                                    "<|tool_calls_section_begin|>",
                                    "<|tool_calls_section_end|>",
                                    "<|tool_call_begin|>",
                                    "<|tool_call_argument_begin|>",
                                    "<|tool_call_end|>",
                                    "<|im_middle|>"};
  if (thinking) names.insert(names.end(), {"<think>", "</think>"});
  return names;
}

// One id a byte, so that a cut between ids is a cut between bytes.
inline Tokenizer byte_tokenizer(const std::vector<std::string>& specials) {
  return make_tokenizer(byte_tokens_and({}), specials);
}

// Segments as a line: text in single quotes, special tokens as one or two letters.
inline std::string show(const std::vector<PromptSegment>& segments) {
  static const std::map<std::string, std::string> kLetters = {
      {"<|open|>", "O"},
      {"<|close|>", "C"},
      {"<|sep|>", "S"},
      {"<|end_of_msg|>", "E"},
      {"<|im_user|>", "U"},
      {"<|im_assistant|>", "A"},
      {"<|im_system|>", "S"},
      {"<|im_middle|>", "M"},
      {"<|im_end|>", "E"},
      {"<|tool_calls_section_begin|>", "[["},
      {"<|tool_calls_section_end|>", "]]"},
      {"<|tool_call_begin|>", "["},
      {"<|tool_call_argument_begin|>", ":"},
      {"<|tool_call_end|>", "]"},
      {"<think>", "("},
      {"</think>", ")"}};
  std::string line;
  for (const PromptSegment& segment : segments) {
    if (!line.empty()) line += ' ';
    const bool control = segment.kind == PromptSegment::Kind::kControl;
    line += control ? kLetters.at(segment.text) : fmt::format("'{}'", segment.text);
  }
  return line;
}

inline std::string join(const std::vector<PromptSegment>& segments) {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

// The error that `action` throws, as "code: message"; "no error" if it throws none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::kUsage:
        return std::string("usage: ") + error.what();
      case ErrorCode::kUnsupported:
        return std::string("unsupported: ") + error.what();
      case ErrorCode::kBadModel:
        return std::string("bad model: ") + error.what();
      default:
        return std::string("other: ") + error.what();
    }
  }
  return "no error";
}

// What a client would have put together from the deltas of an answer.
struct Assembled {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
    int num_pieces = 0;
    bool ended = false;
  };

  std::string reasoning;
  std::string content;
  std::vector<Call> calls;

  void add(const std::vector<ChatDelta>& deltas) {
    for (const ChatDelta& delta : deltas) add(delta);
  }

  void add(const ChatDelta& delta) {
    switch (delta.kind) {
      case ChatDelta::Kind::kReasoning:
        reasoning += delta.text;
        break;
      case ChatDelta::Kind::kContent:
        content += delta.text;
        break;
      case ChatDelta::Kind::kToolCallStart:
        calls.push_back({delta.id, delta.name, {}, 0, false});
        break;
      case ChatDelta::Kind::kToolCallArguments:
        calls.at(static_cast<std::size_t>(delta.call_idx)).arguments += delta.text;
        ++calls.at(static_cast<std::size_t>(delta.call_idx)).num_pieces;
        break;
      case ChatDelta::Kind::kToolCallEnd:
        calls.at(static_cast<std::size_t>(delta.call_idx)).ended = true;
        break;
    }
  }
};

// A result as a line: reasoning | content | calls | finish reason.
inline std::string show(const ChatResult& result) {
  std::string line = result.reasoning + " | " + result.content + " |";
  for (const ToolCall& call : result.tool_calls) {
    line += " " + call.id + "=" + call.name + call.arguments;
  }
  return line + " | " + std::string(to_string(result.finish_reason));
}

// Feeds an answer and checks that deltas and result agree.
class AnswerReader {
 public:
  AnswerReader(const ChatFormat& format, const Conversation& conversation)
      : parser_(format.parser(conversation)) {}

  AnswerReader& feed(const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) assembled_.add(parser_.feed(id));
    return *this;
  }

  ChatResult finish(bool stopped = false) {
    assembled_.add(parser_.finish(stopped));
    return parser_.result();
  }

  const Assembled& assembled() const { return assembled_; }

  // Empty if the deltas, put together, are the result; else what differs.
  std::string disagreement() const {
    const ChatResult& result = parser_.result();
    if (assembled_.reasoning != result.reasoning) return "reasoning: " + assembled_.reasoning;
    if (assembled_.content != result.content) return "content: " + assembled_.content;
    std::size_t num_ended = 0;
    for (const Assembled::Call& call : assembled_.calls) {
      if (!call.ended) continue;
      if (num_ended == result.tool_calls.size()) return "too many calls";
      const ToolCall& expected = result.tool_calls[num_ended++];
      const bool same = call.id == expected.id && call.name == expected.name &&
                        call.arguments == expected.arguments;
      if (!same) return "call: " + call.id + " " + call.name + " " + call.arguments;
    }
    return num_ended == result.tool_calls.size() ? "" : "too few calls";
  }

 private:
  ChatParser parser_;
  Assembled assembled_;
};

}  // namespace baltoro
