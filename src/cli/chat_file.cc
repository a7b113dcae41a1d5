#include "cli/chat_file.h"

#include <fmt/format.h>

#include "cli/format.h"
#include "core/error.h"
#include "io/output_file.h"
#include "text/json_print.h"

namespace baltoro::cli {
namespace {

std::string content_json(const std::vector<std::string>& parts) {
  if (parts.empty()) return "null";
  if (parts.size() == 1) return quote_json(parts.front());
  std::string list;
  for (const std::string& part : parts) {
    list += fmt::format(R"({}{{"type": "text", "text": {}}})", list.empty() ? "" : ", ",
                        quote_json(part));
  }
  return fmt::format("[{}]", list);
}

std::string call_json(const ToolCall& call) {
  const std::string arguments =
      call.form == ArgumentsForm::kObject ? call.arguments : quote_json(call.arguments);
  const std::string id = call.id.empty() ? "" : fmt::format(R"("id": {}, )", quote_json(call.id));
  return fmt::format(R"({{{}"type": "function", "function": {{"name": {}, "arguments": {}}}}})", id,
                     quote_json(call.name), arguments);
}

}  // namespace

std::string message_json(const Message& message) {
  std::string out = fmt::format(R"({{"role": {}, "content": {})", quote_json(message.role),
                                content_json(message.content));
  const auto add = [&](const char* key, const std::string& text) {
    out += fmt::format(R"(, "{}": {})", key, quote_json(text));
  };
  if (message.name) add("name", *message.name);
  if (!message.reasoning.empty()) add("reasoning_content", message.reasoning);
  if (!message.tool_calls.empty()) {
    std::string calls;
    for (const ToolCall& call : message.tool_calls) {
      calls += (calls.empty() ? "" : ", ") + call_json(call);
    }
    out += fmt::format(R"(, "tool_calls": [{}])", calls);
  }
  if (!message.tool_call_id.empty()) add("tool_call_id", message.tool_call_id);
  if (message.tool) add("tool", *message.tool);
  if (!message.tools.empty()) out += fmt::format(R"(, "tools": {})", message.tools);
  return out + "}";
}

std::string conversation_json(const Conversation& conversation) {
  std::string messages;
  for (const Message& message : conversation.messages) {
    messages += (messages.empty() ? "\n    " : ",\n    ") + message_json(message);
  }
  std::string out = fmt::format("{{\n  \"messages\": [{}\n  ]", messages);
  if (!conversation.tools.empty()) out += fmt::format(",\n  \"tools\": {}", conversation.tools);
  if (conversation.thinking) out += fmt::format(",\n  \"thinking\": {}", *conversation.thinking);
  return out + "\n}\n";
}

void save_conversation(const Conversation& conversation, const std::string& file) {
  write_text_file(file, conversation_json(conversation));
}

Conversation load_conversation(const std::string& file) {
  const std::string text = read_text(file == "-" ? "./-" : file);  // not standard input
  try {
    return parse_conversation(text);
  } catch (const Error& error) {
    // Errors of the JSON itself name the line and the column of the "request".
    std::string_view message = error.what();
    if (message.starts_with("request: ")) message.remove_prefix(sizeof "request: " - 1);
    fail(error.code(), "{}: {}", file, message);
  }
}

}  // namespace baltoro::cli
