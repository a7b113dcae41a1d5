#include "serve/api/chat_response.h"

#include <string>
#include <utility>

#include "serve/api/sse.h"

namespace baltoro::serve {
namespace {

Json bytes_of(const Tokenizer& tokenizer, TokenId id) {
  Json bytes = Json::array();
  for (const char c : tokenizer.token_bytes(id)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json logprob_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  return {{"token", token_text(tokenizer, id)},
          {"logprob", number(logprob)},
          {"bytes", bytes_of(tokenizer, id)}};
}

Json logprobs_json(const Tokenizer& tokenizer, const std::vector<Choice>& tokens) {
  Json content = Json::array();
  for (const Choice& token : tokens) {
    Json entry = logprob_json(tokenizer, token.token, token.logprob);
    Json& top = entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(logprob_json(tokenizer, other.token, other.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json message_json(const ChatResult& result) {
  const bool only_calls = result.content.empty() && !result.tool_calls.empty();
  Json message = {{"role", "assistant"},
                  {"content", only_calls ? Json() : Json(result.content)},
                  {"refusal", nullptr}};
  if (!result.reasoning.empty()) message["reasoning_content"] = result.reasoning;
  for (const ToolCall& call : result.tool_calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

// Null: the delta tells a client of this interface nothing.
Json delta_json(const ChatDelta& delta) {
  switch (delta.kind) {
    case ChatDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case ChatDelta::Kind::kContent:
      return {{"content", delta.text}};
    case ChatDelta::Kind::kToolCallStart:
      return {
          {"tool_calls", Json::array({{{"index", delta.call_idx},
                                       {"id", delta.id},
                                       {"type", "function"},
                                       {"function", {{"name", delta.name}, {"arguments", ""}}}}})}};
    case ChatDelta::Kind::kToolCallArguments:
      return {{"tool_calls", Json::array({{{"index", delta.call_idx},
                                           {"function", {{"arguments", delta.text}}}}})}};
    case ChatDelta::Kind::kToolCallEnd:
      break;
  }
  return nullptr;
}

}  // namespace

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

Json chat_completion(const ResponseHead& head, const Tokenizer& tokenizer, bool logprobs,
                     const std::vector<FinishedChoice>& choices, const Usage& usage) {
  Json list = Json::array();
  for (const FinishedChoice& choice : choices) {
    list.push_back({{"index", list.size()},
                    {"message", message_json(choice.result)},
                    {"logprobs", logprobs ? logprobs_json(tokenizer, choice.tokens) : Json()},
                    {"finish_reason", to_string(choice.result.finish_reason)}});
  }
  return {{"id", head.id},
          {"object", "chat.completion"},
          {"created", head.created},
          {"model", head.model},
          {"choices", std::move(list)},
          {"usage", usage_json(usage)},
          {"system_fingerprint", head.fingerprint}};
}

ChatStream::ChatStream(std::shared_ptr<HttpReply> reply, ResponseHead head, Tokenizer tokenizer,
                       const AnswerRequest& request)
    : StreamResponder(std::move(reply), ErrorShape::kOpenAi),
      head_(std::move(head)),
      tokenizer_(std::move(tokenizer)),
      num_choices_(request.total_choices()),
      logprobs_(request.logprobs),
      include_usage_(request.fields.include_usage) {}

void ChatStream::begin() {
  StreamResponder::begin();
  for (int i = 0; i < num_choices_; ++i) {
    write_choice(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }
}

void ChatStream::step(int choice, const AnswerStep& step) {
  Json logprobs;
  if (logprobs_ && !step.tokens.empty()) logprobs = logprobs_json(tokenizer_, step.tokens);
  for (const ChatDelta& delta : step.deltas) {
    Json json = delta_json(delta);
    if (json.is_null()) continue;
    const bool content = delta.kind == ChatDelta::Kind::kContent;
    write_choice(choice, std::move(json), content ? std::exchange(logprobs, nullptr) : Json(),
                 nullptr);
  }
  if (!logprobs.is_null()) {
    write_choice(choice, {{"content", ""}}, std::move(logprobs), nullptr);
  }
}

void ChatStream::end(int choice, const ChoiceEnd& end) {
  write_choice(choice, Json::object(), nullptr, to_string(end.result.finish_reason));
}

void ChatStream::complete(const Usage& usage) {
  if (include_usage_) {
    Json last = chunk();
    last["choices"] = Json::array();
    last["usage"] = usage_json(usage);
    write(sse_data(dump(last)));
  }
  write(sse_data("[DONE]"));
  close();
}

Json ChatStream::chunk() const {
  return {{"id", head_.id},
          {"object", "chat.completion.chunk"},
          {"created", head_.created},
          {"model", head_.model},
          {"system_fingerprint", head_.fingerprint}};
}

void ChatStream::write_choice(int choice, Json delta, Json logprobs, Json finish_reason) {
  Json json = chunk();
  json["choices"] = Json::array({{{"index", choice},
                                  {"delta", std::move(delta)},
                                  {"logprobs", std::move(logprobs)},
                                  {"finish_reason", std::move(finish_reason)}}});
  if (include_usage_) json["usage"] = nullptr;
  write(sse_data(dump(json)));
}

}  // namespace baltoro::serve
