#include "serve/api/messages_response.h"

#include <utility>

#include "serve/api/sse.h"

namespace baltoro::serve {
namespace {

const char* stop_reason(const ChatResult& result, const std::optional<std::string>& stop) {
  if (stop) return "stop_sequence";
  switch (result.finish_reason) {
    case FinishReason::kStop:
      return "end_turn";
    case FinishReason::kLength:
      return "max_tokens";
    case FinishReason::kToolCalls:
      return "tool_use";
  }
  return "end_turn";
}

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion}};
}

// The model may have written something else than an object, which this interface has no place for.
Json input_of(const ToolCall& call) {
  Json input = Json::parse(call.arguments, nullptr, false);
  if (input.is_object()) return input;
  return {{"INVALID_JSON", call.arguments}};
}

Json message_head(const ResponseHead& head, Json content, const Usage& usage) {
  return {{"id", head.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", head.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", usage_json(usage)}};
}

}  // namespace

Json message_object(const ResponseHead& head, const FinishedChoice& choice, const Usage& usage) {
  const ChatResult& result = choice.result;
  Json content = Json::array();
  if (!result.reasoning.empty()) {
    content.push_back(
        {{"type", "thinking"}, {"thinking", result.reasoning}, {"signature", head.fingerprint}});
  }
  if (!result.content.empty() || result.tool_calls.empty()) {
    content.push_back({{"type", "text"}, {"text", result.content}});
  }
  for (const ToolCall& call : result.tool_calls) {
    content.push_back(
        {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call)}});
  }
  Json out = message_head(head, std::move(content), usage);
  out["stop_reason"] = stop_reason(result, choice.stop);
  if (choice.stop) out["stop_sequence"] = *choice.stop;
  return out;
}

MessageStream::MessageStream(std::shared_ptr<HttpReply> reply, ResponseHead head,
                             std::int64_t prompt_tokens)
    : StreamResponder(std::move(reply), ErrorShape::kAnthropic),
      head_(std::move(head)),
      prompt_tokens_(prompt_tokens) {}

void MessageStream::begin() {
  StreamResponder::begin();
  event("message_start",
        {{"message", message_head(head_, Json::array(), {.prompt = prompt_tokens_})}});
  event("ping", Json::object());
}

void MessageStream::step(int /*choice*/, const AnswerStep& step) {
  for (const ChatDelta& delta : step.deltas) add(delta);
}

void MessageStream::end(int /*choice*/, const ChoiceEnd& end) {
  close_block();
  end_ = end;
}

void MessageStream::complete(const Usage& usage) {
  Json stop = end_.stop ? Json(*end_.stop) : Json();
  event("message_delta",
        {{"delta", {{"stop_reason", stop_reason(end_.result, end_.stop)}, {"stop_sequence", stop}}},
         {"usage", usage_json(usage)}});
  event("message_stop", Json::object());
  close();
}

void MessageStream::add(const ChatDelta& delta_in) {
  switch (delta_in.kind) {
    case ChatDelta::Kind::kReasoning:
      return text(Block::kThinking, delta_in.text);
    case ChatDelta::Kind::kContent:
      return text(Block::kText, delta_in.text);
    case ChatDelta::Kind::kToolCallStart:
      return open(Block::kTool, {{"type", "tool_use"},
                                 {"id", delta_in.id},
                                 {"name", delta_in.name},
                                 {"input", Json::object()}});
    case ChatDelta::Kind::kToolCallArguments:
      return delta({{"type", "input_json_delta"}, {"partial_json", delta_in.text}});
    case ChatDelta::Kind::kToolCallEnd:
      return close_block();
  }
}

void MessageStream::text(Block block, const std::string& text) {
  const bool thinking = block == Block::kThinking;
  if (block_ != block) {
    Json content = {{"type", "text"}, {"text", ""}};
    if (thinking) content = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    open(block, std::move(content));
  }
  delta(thinking ? Json{{"type", "thinking_delta"}, {"thinking", text}}
                 : Json{{"type", "text_delta"}, {"text", text}});
}

void MessageStream::open(Block block, Json content) {
  close_block();
  block_ = block;
  ++block_idx_;
  event("content_block_start", {{"index", block_idx_}, {"content_block", std::move(content)}});
}

void MessageStream::close_block() {
  if (block_ == Block::kNone) return;
  if (block_ == Block::kThinking) {
    delta({{"type", "signature_delta"}, {"signature", head_.fingerprint}});
  }
  event("content_block_stop", {{"index", block_idx_}});
  block_ = Block::kNone;
}

void MessageStream::delta(Json delta) {
  event("content_block_delta", {{"index", block_idx_}, {"delta", std::move(delta)}});
}

void MessageStream::event(const char* name, Json fields) {
  Json json = {{"type", name}};
  json.update(fields);
  write(sse_event(name, dump(json)));
}

}  // namespace baltoro::serve
