#include "serve/api/chat_request.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "serve/api/effort.h"
#include "serve/api/json.h"
#include "text/chat_input.h"

namespace baltoro::serve {
namespace {

using Kind = JsonValue::Kind;

constexpr std::int64_t kMostTopLogprobs = 20;

void check_tools(const JsonField& tools) {
  for (const JsonField& tool : tools.items()) {
    const auto type = tool["type"].optional_string();
    if (type && *type != "function") {
      fail(ErrorCode::kUnsupported,
           "{}.type: \"{}\"; only tools of type \"function\" can be called", tool.path, *type);
    }
    tool["function"].expect(Kind::kObject, "an object {\"name\", \"description\", \"parameters\"}");
    if (tool["function"]["name"].required_string().empty()) {
      fail(ErrorCode::kUsage, "{}.function.name: a tool needs a name", tool.path);
    }
    const JsonField parameters = tool["function"]["parameters"];
    if (parameters.present()) parameters.expect(Kind::kObject, "a JSON schema");
  }
}

void check_response_format(const JsonField& format) {
  if (!format.present()) return;
  const std::string type = format["type"].required_string();
  if (type == "text" || type == "json_object" || type == "json_schema") return;
  fail(ErrorCode::kUsage, "{}.type: expected text, json_object or json_schema, found \"{}\"",
       format.path, type);
}

void read_logprobs(const JsonField& request, AnswerRequest& answer, GenerationFields& fields) {
  answer.logprobs = request["logprobs"].optional_bool().value_or(false);
  const auto top = integer_in(request["top_logprobs"], 0, kMostTopLogprobs);
  if (top && *top > 0 && !answer.logprobs) {
    fail(ErrorCode::kUsage, "top_logprobs: only a request with \"logprobs\": true may have it");
  }
  fields.sampling.num_logprobs = static_cast<int>(top.value_or(0));
}

}  // namespace

Conversation parse_chat_conversation(const JsonField& request, const Model& model) {
  const ChatFormat::Kind kind = model.require_format().kind();
  Conversation conversation = parse_conversation(request);
  if (conversation.messages.empty()) {
    fail(ErrorCode::kUsage, "messages: the conversation is empty; it needs at least one message");
  }
  check_tools(request["tools"]);
  check_response_format(request["response_format"]);
  if (conversation.thinking == false) disable_thinking("thinking", kind, conversation);
  apply_effort(request["reasoning_effort"], kind, conversation);
  conversation.add_generation_prefix = true;
  return conversation;
}

AnswerRequest parse_chat_request(const JsonField& request, const Model& model) {
  GenerationFields fields = read_generation_fields(request, model);
  AnswerRequest head;
  read_logprobs(request, head, fields);
  AnswerRequest answer =
      chat_answer_request(model, parse_chat_conversation(request, model), std::move(fields));
  answer.logprobs = head.logprobs;
  answer.call_id_prefix = random_id("call_") + "_";
  return answer;
}

}  // namespace baltoro::serve
