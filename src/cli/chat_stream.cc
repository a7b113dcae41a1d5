#include "cli/chat_stream.h"

#include <utility>

#include "core/error.h"
#include "text/json_field.h"

namespace baltoro::cli {
namespace {

using Kind = ChatDelta::Kind;

std::optional<std::string> message_of(const JsonValue& root) {
  const JsonValue* error = root.find("error");
  if (error == nullptr) return std::nullopt;
  const JsonValue* message = error->find("message");
  if (message == nullptr) message = error;
  if (message->kind != JsonValue::Kind::kString) return std::nullopt;
  return message->text;
}

FinishReason finish_reason(const std::string& word) {
  if (word == "length") return FinishReason::kLength;
  return word == "tool_calls" ? FinishReason::kToolCalls : FinishReason::kStop;
}

}  // namespace

std::optional<std::string> server_message(std::string_view body) {
  try {
    return message_of(parse_json(body, "answer"));
  } catch (const Error&) {
    return std::nullopt;
  }
}

void ChatStream::feed(std::string_view data) {
  if (data.empty() || data == "[DONE]") return;
  try {
    read(data);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;
    fail(ErrorCode::kIo, "the server's answer is not that of a chat completion: {}", error.what());
  }
}

void ChatStream::read(std::string_view data) {
  const JsonValue root = parse_json(data, "event");
  if (const auto message = message_of(root)) {
    fail(ErrorCode::kIo, "the server failed: {}", *message);
  }
  const JsonField event{&root, ""};
  const JsonField usage = event["usage"];
  if (usage.present()) {
    const auto count = [](const JsonField& field) { return field.optional_integer().value_or(0); };
    usage_ = {.prompt_tokens = count(usage["prompt_tokens"]),
              .cached_tokens = count(usage["prompt_tokens_details"]["cached_tokens"]),
              .completion_tokens = count(usage["completion_tokens"])};
  }
  for (const JsonField& choice : event["choices"].items()) {
    const JsonField delta = choice["delta"];
    if (const auto text = delta["reasoning_content"].optional_string()) {
      result_.reasoning += *text;
      tell(Kind::kReasoning, *text);
    }
    if (const auto text = delta["content"].optional_string()) {
      result_.content += *text;
      tell(Kind::kContent, *text);
    }
    for (const JsonField& call : delta["tool_calls"].items()) {
      const auto idx = call["index"].optional_integer().value_or(0);
      const JsonField function = call["function"];
      if (idx >= static_cast<std::int64_t>(result_.tool_calls.size())) {
        end_call();
        call_is_open_ = true;
        ToolCall& begun = result_.tool_calls.emplace_back();
        begun.id = call["id"].optional_string().value_or("");
        begun.name = function["name"].required_string();
        tell(Kind::kToolCallStart, {});
      }
      const std::string text = function["arguments"].optional_string().value_or("");
      result_.tool_calls.back().arguments += text;
      tell(Kind::kToolCallArguments, text);
    }
    if (const auto word = choice["finish_reason"].optional_string()) {
      end_call();
      finished_ = true;
      result_.finish_reason = finish_reason(*word);
    }
  }
}

ChatResult ChatStream::result() const {
  ChatResult result = result_;
  if (call_is_open_) result.tool_calls.pop_back();
  return result;
}

void ChatStream::end_call() {
  if (!std::exchange(call_is_open_, false)) return;
  tell(Kind::kToolCallEnd, {});
}

void ChatStream::tell(Kind kind, const std::string& text) {
  const bool piece = kind != Kind::kToolCallStart && kind != Kind::kToolCallEnd;
  if (piece && text.empty()) return;
  begun_ = true;
  ChatDelta delta;
  delta.kind = kind;
  delta.text = text;
  if (kind == Kind::kToolCallStart) {
    delta.id = result_.tool_calls.back().id;
    delta.name = result_.tool_calls.back().name;
  }
  delta.call_idx =
      result_.tool_calls.empty() ? -1 : static_cast<int>(result_.tool_calls.size()) - 1;
  on_delta_(delta);
}

}  // namespace baltoro::cli
