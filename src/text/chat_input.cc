// parse_conversation: the JSON of a chat request becomes a Conversation, or an error that names the
// path of the wrong value. What is null counts as missing.
#include "text/chat_input.h"

#include <string>
#include <string_view>
#include <utility>

#include "baltoro/chat.h"
#include "core/error.h"
#include "text/json_field.h"

namespace baltoro {
namespace {

using Kind = JsonValue::Kind;

std::string parse_part(const JsonField& part) {
  if (part.value->kind == Kind::kString) return part.value->text;
  part.expect(Kind::kObject, "a content part {\"type\": \"text\", \"text\": ...}");
  const std::string type = part["type"].required_string();
  if (type == "text") return part["text"].required_string();
  fail(ErrorCode::kUnsupported, "{}: a content part of type \"{}\"; only \"text\" can be read",
       part.path, type);
}

std::vector<std::string> parse_content(const JsonField& content) {
  if (!content.present()) return {};
  if (content.value->kind == Kind::kString) return {content.value->text};
  content.expect(Kind::kArray, "null, a string or a list of parts");
  std::vector<std::string> parts;
  for (const JsonField& part : content.items()) parts.push_back(parse_part(part));
  return parts;
}

// The source text of a list of tool declarations, or nothing where it is missing or empty.
std::string parse_tools(const JsonField& tools) {
  if (!tools.present()) return {};
  tools.expect(Kind::kArray, "an array of tool declarations");
  for (const JsonField& tool : tools.items()) tool.expect(Kind::kObject, "a tool declaration");
  return tools.value->items.empty() ? std::string() : std::string(tools.value->source);
}

ToolCall parse_tool_call(const JsonField& field) {
  field.expect(Kind::kObject, "a tool call");
  const JsonField function = field["function"].present() ? field["function"] : field;
  function.expect(Kind::kObject, "an object {\"name\", \"arguments\"}");
  ToolCall call;
  call.id = field["id"].optional_string().value_or("");
  call.name = function["name"].required_string();
  const JsonField arguments = function["arguments"];
  if (!arguments.present()) return call;
  if (arguments.value->kind == Kind::kString) {
    call.arguments = arguments.value->text;
    return call;
  }
  arguments.expect(Kind::kObject, "an object, or a string of JSON");
  call.form = ArgumentsForm::kObject;
  call.arguments = arguments.value->source;
  return call;
}

std::vector<ToolCall> parse_tool_calls(const JsonField& calls) {
  if (!calls.present()) return {};
  calls.expect(Kind::kArray, "an array of tool calls");
  std::vector<ToolCall> parsed;
  for (const JsonField& call : calls.items()) parsed.push_back(parse_tool_call(call));
  return parsed;
}

// A field that only one role may have: elsewhere it would be dropped without a word.
void refuse_outside(const JsonField& message, std::string_view key, bool allowed) {
  const JsonField field = message[key];
  if (allowed || !field.present()) return;
  const bool empty = field.value->kind == Kind::kArray && field.value->items.empty();
  if (empty) return;
  fail(ErrorCode::kUsage, "{}: a message of role \"{}\" cannot have it", field.path,
       message["role"].value->text);
}

Message parse_message(const JsonField& field) {
  field.expect(Kind::kObject, "a message");
  Message message;
  message.role = field["role"].required_string();
  message.content = parse_content(field["content"]);
  message.name = field["name"].optional_string();
  const bool assistant = message.role == "assistant";
  refuse_outside(field, "tool_calls", assistant);
  refuse_outside(field, "tools", message.role == "system" || message.role == "developer");
  if (assistant) {
    const auto reasoning = field["reasoning_content"].optional_string();
    message.reasoning = reasoning ? *reasoning : field["reasoning"].optional_string().value_or("");
    message.tool_calls = parse_tool_calls(field["tool_calls"]);
  } else if (message.role == "tool") {
    const auto id = field["tool_call_id"].optional_string();
    message.tool_call_id = id ? *id : field["id"].optional_string().value_or("");
    message.tool = field["tool"].optional_string();
  } else {
    message.tools = parse_tools(field["tools"]);
  }
  return message;
}

ToolChoice parse_tool_choice(const JsonField& choice) {
  if (!choice.present()) return {};
  if (choice.value->kind == Kind::kObject) {
    const JsonField function = choice["function"].present() ? choice["function"] : choice;
    return {ToolChoice::Kind::kNamed, function["name"].required_string()};
  }
  choice.expect(Kind::kString, "\"auto\", \"none\", \"required\" or the name of a function");
  const std::string& word = choice.value->text;
  if (word == "auto") return {};
  if (word == "none") return {ToolChoice::Kind::kNone, {}};
  if (word == "required") return {ToolChoice::Kind::kRequired, {}};
  fail(ErrorCode::kUsage,
       "{}: expected \"auto\", \"none\", \"required\" or {{\"type\": \"function\", \"function\": "
       "{{\"name\"}}}}, found \"{}\"",
       choice.path, word);
}

// A boolean, or an object with the word for it, as Moonshot's service has it.
std::optional<bool> parse_thinking(const JsonField& thinking) {
  if (!thinking.is(Kind::kObject)) return thinking.optional_bool();
  const std::string type = thinking["type"].required_string();
  if (type == "enabled") return true;
  if (type == "disabled") return false;
  fail(ErrorCode::kUsage, "{}.type: expected enabled or disabled, found \"{}\"", thinking.path,
       type);
}

ResponseFormat parse_response_format(const JsonField& format) {
  if (!format.present()) return {};
  format.expect(Kind::kObject, "an object {\"type\"}");
  const std::string type = format["type"].required_string();
  if (type == "json_object") return {ResponseFormat::Kind::kJsonObject, {}};
  if (type != "json_schema") return {};
  JsonField schema = format["json_schema"];
  schema.expect(Kind::kObject, "an object with the schema");
  if (schema["schema"].present()) {
    schema = schema["schema"];
  } else if (schema["json_schema"].present()) {
    schema = schema["json_schema"];
  }
  return {ResponseFormat::Kind::kJsonSchema, std::string(schema.value->source)};
}

}  // namespace

Conversation parse_conversation(std::string_view json) {
  const JsonValue root = parse_json(json, "request");
  return parse_conversation(JsonField{&root, ""});
}

Conversation parse_conversation(const JsonField& request) {
  request.expect(Kind::kObject, "an object");
  Conversation conversation;
  request["messages"].expect(Kind::kArray, "an array of messages");
  for (const JsonField& message : request["messages"].items()) {
    conversation.messages.push_back(parse_message(message));
  }
  conversation.tools = parse_tools(request["tools"]);
  conversation.thinking = parse_thinking(request["thinking"]);
  const JsonField effort = request["thinking_effort"];
  if (effort.value != nullptr) conversation.thinking_effort = effort.optional_string();
  conversation.tool_choice = parse_tool_choice(request["tool_choice"]);
  conversation.parallel_calls = request["parallel_tool_calls"].optional_bool().value_or(true);
  conversation.response_format = parse_response_format(request["response_format"]);
  conversation.add_generation_prefix =
      request["add_generation_prompt"].optional_bool().value_or(true);
  return conversation;
}

}  // namespace baltoro
