#include "serve/api/messages_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/generate.h"
#include "core/error.h"
#include "serve/api/effort.h"
#include "serve/api/errors.h"
#include "serve/api/json.h"
#include "text/json_print.h"

namespace baltoro::serve {
namespace {

using Kind = JsonValue::Kind;

[[noreturn]] void refuse_block(const JsonField& block, const std::string& type) {
  fail(ErrorCode::kUnsupported, "{}.type: a block of type \"{}\" cannot be read here", block.path,
       type);
}

std::string block_type(const JsonField& block) {
  block.expect(Kind::kObject, "a content block {\"type\", ...}");
  return block["type"].required_string();
}

// A string, or blocks of text alone; nothing where it is missing.
std::vector<std::string> text_of(const JsonField& content) {
  if (!content.present()) return {};
  if (content.is(Kind::kString)) return {content.value->text};
  content.expect(Kind::kArray, "a string or an array of text blocks");
  std::vector<std::string> parts;
  for (const JsonField& block : content.items()) {
    const std::string type = block_type(block);
    if (type != "text") refuse_block(block, type);
    parts.push_back(block["text"].required_string());
  }
  return parts;
}

// `is_error` is read and not shown: the chat formats have no word for it, and the content tells what
// went wrong. `messages` are those before it.
Message tool_result(const JsonField& block, const std::vector<Message>& messages) {
  Message message;
  message.role = "tool";
  message.tool_call_id = block["tool_use_id"].required_string();
  message.content = text_of(block["content"]);
  block["is_error"].optional_bool();
  const auto asker =
      std::ranges::find(messages.rbegin(), messages.rend(), "assistant", &Message::role);
  const bool known = asker != messages.rend() &&
                     std::ranges::find(asker->tool_calls, message.tool_call_id, &ToolCall::id) !=
                         asker->tool_calls.end();
  if (!known) {
    fail(ErrorCode::kUsage,
         "{}.tool_use_id: \"{}\" is the id of no tool_use in the answer before it", block.path,
         message.tool_call_id);
  }
  return message;
}

ToolCall tool_use(const JsonField& block) {
  ToolCall call;
  call.id = block["id"].required_string();
  call.name = block["name"].required_string();
  call.form = ArgumentsForm::kObject;
  const JsonField input = block["input"];
  input.expect(Kind::kObject, "an object");
  call.arguments = input.value->source;
  return call;
}

// Tool results are messages of their own, in front of what the user says with them.
void add_user(const JsonField& content, std::vector<Message>& messages) {
  Message user;
  user.role = "user";
  bool has_results = false;
  if (content.is(Kind::kString)) {
    user.content = {content.value->text};
  } else {
    content.expect(Kind::kArray, "a string or an array of content blocks");
    for (const JsonField& block : content.items()) {
      const std::string type = block_type(block);
      if (type == "tool_result") {
        messages.push_back(tool_result(block, messages));
        has_results = true;
      } else if (type == "text") {
        user.content.push_back(block["text"].required_string());
      } else {
        refuse_block(block, type);
      }
    }
  }
  if (!user.content.empty() || !has_results) messages.push_back(std::move(user));
}

Message assistant(const JsonField& content) {
  Message message;
  message.role = "assistant";
  if (content.is(Kind::kString)) {
    message.content = {content.value->text};
    return message;
  }
  content.expect(Kind::kArray, "a string or an array of content blocks");
  for (const JsonField& block : content.items()) {
    const std::string type = block_type(block);
    if (type == "text") {
      message.content.push_back(block["text"].required_string());
    } else if (type == "thinking") {
      message.reasoning += block["thinking"].required_string();
    } else if (type == "tool_use") {
      message.tool_calls.push_back(tool_use(block));
    } else if (type != "redacted_thinking") {  // another model's, which nobody can read
      refuse_block(block, type);
    }
  }
  return message;
}

void add_message(const JsonField& field, std::vector<Message>& messages) {
  field.expect(Kind::kObject, "a message {\"role\", \"content\"}");
  const std::string role = field["role"].required_string();
  const JsonField content = field["content"];
  if (role == "user") {
    add_user(content, messages);
  } else if (role == "assistant") {
    messages.push_back(assistant(content));
  } else if (role == "system") {
    Message& message = messages.emplace_back();
    message.role = role;
    message.content = text_of(content);
  } else {
    fail(ErrorCode::kUsage, "{}.role: expected user or assistant, found \"{}\"", field.path, role);
  }
}

// One declaration in the form that the chat formats know, {"type": "function", "function"}.
std::string declaration(const JsonField& tool) {
  tool.expect(Kind::kObject, "a tool {\"name\", \"description\", \"input_schema\"}");
  const auto type = tool["type"].optional_string();
  if (type && *type != "custom") {
    fail(ErrorCode::kUnsupported, "{}.type: \"{}\" runs on Anthropic's servers; declare the tool",
         tool.path, *type);
  }
  const std::string name = tool["name"].required_string();
  if (name.empty()) fail(ErrorCode::kUsage, "{}.name: a tool needs a name", tool.path);
  const JsonField schema = tool["input_schema"];
  schema.expect(Kind::kObject, "a JSON schema");
  std::string function = fmt::format(R"("name":{})", quote_json(name));
  if (const auto description = tool["description"].optional_string()) {
    function += fmt::format(R"(,"description":{})", quote_json(*description));
  }
  function += fmt::format(R"(,"parameters":{})", schema.value->source);
  if (const auto strict = tool["strict"].optional_bool()) {
    function += fmt::format(R"(,"strict":{})", *strict);
  }
  return fmt::format(R"({{"type":"function","function":{{{}}}}})", function);
}

std::string read_tools(const JsonField& tools) {
  if (!tools.present()) return {};
  tools.expect(Kind::kArray, "an array of tools");
  std::string list;
  for (const JsonField& tool : tools.items()) {
    list += (list.empty() ? "" : ",") + declaration(tool);
  }
  return list.empty() ? list : fmt::format("[{}]", list);
}

ToolChoice read_tool_choice(const JsonField& choice) {
  if (!choice.present()) return {};
  choice.expect(Kind::kObject, "an object {\"type\"}");
  const std::string type = choice["type"].required_string();
  if (type == "auto") return {};
  if (type == "none") return {ToolChoice::Kind::kNone, {}};
  if (type == "any") return {ToolChoice::Kind::kRequired, {}};
  if (type == "tool") return {ToolChoice::Kind::kNamed, choice["name"].required_string()};
  fail(ErrorCode::kUsage, "{}.type: expected auto, any, tool or none, found \"{}\"", choice.path,
       type);
}

ResponseFormat read_format(const JsonField& format) {
  if (!format.present()) return {};
  const std::string type = format["type"].required_string();
  if (type != "json_schema") {
    fail(ErrorCode::kUsage, "{}.type: expected json_schema, found \"{}\"", format.path, type);
  }
  format["schema"].expect(Kind::kObject, "a JSON schema");
  return {ResponseFormat::Kind::kJsonSchema, std::string(format["schema"].value->source)};
}

// Off unless the request turns it on, as clients of this interface expect.
void read_thinking(const JsonField& request, ChatFormat::Kind kind, Conversation& conversation) {
  const JsonField thinking = request["thinking"];
  bool on = false;
  if (thinking.present()) {
    thinking.expect(Kind::kObject, "an object {\"type\"}");
    const std::string type = thinking["type"].required_string();
    if (type != "enabled" && type != "adaptive" && type != "disabled") {
      fail(ErrorCode::kUsage, "{}.type: expected enabled, adaptive or disabled, found \"{}\"",
           thinking.path, type);
    }
    integer_in(thinking["budget_tokens"], 0, std::int64_t{1} << 40);
    on = type != "disabled";
    if (!on) disable_thinking(thinking.path, kind, conversation);
  }
  apply_effort(request["output_config"]["effort"], kind, conversation);
  // A model that always thinks cannot be asked not to.
  if (!on && kind != ChatFormat::Kind::kK2Thinking) conversation.thinking = false;
}

GenerationFields read_fields(const JsonField& request, const Model& model) {
  GenerationFields fields;
  if (const auto name = request["model"].optional_string()) model.require_name(*name);
  fields.sampling = default_sampling(model.generation);
  fields.sampling.seed = random_seed();
  if (const auto value = number_in(request["temperature"], 0, 100)) {
    fields.sampling.temperature = static_cast<float>(*value);
  }
  if (const auto value = number_in(request["top_p"], 0, 1)) {
    fields.sampling.top_p = static_cast<float>(*value);
  }
  if (const auto value = integer_in(request["top_k"], 0, 1 << 24)) fields.sampling.top_k = *value;
  if (!request["max_tokens"].present()) request["max_tokens"].refuse("an integer");
  fields.max_tokens = integer_in(request["max_tokens"], 1, std::int64_t{1} << 40);
  if (request["stop_sequences"].present()) {
    request["stop_sequences"].expect(Kind::kArray, "an array of strings");
    fields.stops = read_stops(request["stop_sequences"]);
  }
  fields.stream = request["stream"].optional_bool().value_or(false);
  return fields;
}

// A message that begins with the path in OpenAI's request, with that of this one.
std::string with_own_path(std::string message) {
  constexpr std::string_view kSchema = "response_format.json_schema.schema";
  constexpr std::string_view kParameters = "].function.parameters";
  if (message.starts_with(kSchema)) {
    message.replace(0, kSchema.size(), "output_config.format.schema");
  } else if (message.starts_with("tools[")) {
    const std::size_t bracket = message.find(']');
    if (std::string_view(message).substr(bracket).starts_with(kParameters)) {
      message.replace(bracket, kParameters.size(), "].input_schema");
    }
  }
  return message;
}

// chat_answer_request, whose errors name this interface's fields.
AnswerRequest messages_answer_request(const Model& model, Conversation conversation,
                                      GenerationFields fields) {
  try {
    return chat_answer_request(model, std::move(conversation), std::move(fields));
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), with_own_path(error.what()));
  }
}

}  // namespace

Conversation parse_messages_conversation(const JsonField& request, const Model& model) {
  const ChatFormat::Kind kind = model.require_format().kind();
  request.expect(Kind::kObject, "an object");
  Conversation conversation;
  if (request["system"].present()) {
    Message& system = conversation.messages.emplace_back();
    system.role = "system";
    system.content = text_of(request["system"]);
  }
  const JsonField messages = request["messages"];
  messages.expect(Kind::kArray, "an array of messages");
  if (messages.value->items.empty()) {
    fail(ErrorCode::kUsage, "messages: the conversation is empty; it needs at least one message");
  }
  for (const JsonField& message : messages.items()) {
    add_message(message, conversation.messages);
  }
  conversation.tools = read_tools(request["tools"]);
  conversation.tool_choice = read_tool_choice(request["tool_choice"]);
  conversation.parallel_calls =
      !request["tool_choice"]["disable_parallel_tool_use"].optional_bool().value_or(false);
  conversation.response_format = read_format(request["output_config"]["format"]);
  read_thinking(request, kind, conversation);
  return conversation;
}

AnswerRequest parse_messages_request(const JsonField& request, const Model& model) {
  GenerationFields fields = read_fields(request, model);
  AnswerRequest answer = messages_answer_request(model, parse_messages_conversation(request, model),
                                                 std::move(fields));
  answer.arguments_form = ArgumentsForm::kObject;
  answer.call_id_prefix = random_id("toolu_") + "_";
  return answer;
}

}  // namespace baltoro::serve
