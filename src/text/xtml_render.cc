#include "text/xtml_render.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "text/chat_segments.h"
#include "text/chat_tools.h"
#include "text/json_print.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

constexpr std::string_view kDeclareBegin =
    "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n";
constexpr std::string_view kExtendBegin =
    "## New Tools Available\n"
    "The system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\n"
    "Here are the specs for the extended tools.\n\n```json\n";
constexpr std::string_view kEffortBegin =
    "`thinking_effort` guides on how much to think in your thinking channel (not including the "
    "response channel), supported values include `low`, `medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort=";
constexpr std::string_view kChoiceRequired =
    "The system is invoked with `tool_choice=required`.\n"
    "You MUST call tools in the next message.";
constexpr std::string_view kChoiceNone =
    "The system is invoked with `tool_choice=none`.\n"
    "You MUST NOT call any tools in the next message.";
constexpr std::string_view kFormatBegin = "The system is invoked with `response_format=";
constexpr std::string_view kFormatEnd =
    "`.\nYour response must be raw JSON data without markdown code blocks (```json) or any "
    "additional formatting.";
constexpr std::string_view kSchemaBegin =
    "\nThe JSON data must match the following schema:\n```json\n";
constexpr std::string_view kFence = "\n```";

struct Attribute {
  std::string_view key;
  std::string_view value;
};

std::string replace_all(std::string_view text, char from, std::string_view to) {
  std::string out;
  for (const char c : text) {
    if (c == from) {
      out += to;
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view type_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBoolean:
      return "boolean";
    case JsonValue::Kind::kNumber:
      return "number";
    case JsonValue::Kind::kString:
      return "string";
    case JsonValue::Kind::kArray:
      return "array";
    case JsonValue::Kind::kObject:
      return "object";
  }
  return "string";
}

class XtmlRenderer {
 public:
  explicit XtmlRenderer(const Conversation& conversation)
      : conversation_(conversation), thinking_(conversation.thinking.value_or(true)) {}

  std::vector<PromptSegment> render() {
    declare_tools();
    effort();
    const std::span<const Message> messages = conversation_.messages;
    for (std::size_t i = 0; i < messages.size();) {
      if (messages[i].role == "tool") {
        i = tool_results(i);
      } else {
        message(messages[i], i);
        ++i;
      }
    }
    choice_note();
    format_note();
    if (conversation_.add_generation_prefix) {
      open("message", {{"role", "assistant"}});
      open(thinking_ ? "think" : "response");
    }
    return out_.take();
  }

 private:
  void open(std::string_view tag, std::initializer_list<Attribute> attributes = {}) {
    out_.control(kXtmlOpen);
    out_.text(tag);
    for (const Attribute& attribute : attributes) {
      if (attribute.key.empty()) continue;
      out_.text(fmt::format(" {}", attribute.key));
      out_.text("=\"");
      out_.text(replace_all(replace_all(attribute.value, '&', "&amp;"), '"', "&quot;"));
      out_.text("\"");
    }
    out_.control(kXtmlSep);
  }

  void close(std::string_view tag) {
    out_.control(kXtmlClose);
    out_.text(tag);
    out_.control(kXtmlSep);
  }

  void close_message() {
    close("message");
    out_.control(kXtmlEnd);
  }

  void content(const Message& message) {
    for (const std::string& part : message.content) out_.text(part);
  }

  void note(std::string_view type, std::string_view body) {
    open("message", {{"role", "system"}, {"type", type}});
    out_.text(body);
    close_message();
  }

  void declare_tools() {
    const ToolChoice& choice = conversation_.tool_choice;
    std::string json;
    if (choice.kind == ToolChoice::Kind::kNamed) {
      json = print_tool(conversation_.tools, choice.name);
    } else if (!conversation_.tools.empty()) {
      json = print_tools(conversation_.tools);
    }
    if (json.empty() || json == "[]") return;
    note("tool-declare", fmt::format("{}{}{}", kDeclareBegin, json, kFence));
  }

  void effort() {
    if (!thinking_ || !conversation_.thinking_effort) return;
    const std::string& effort = *conversation_.thinking_effort;
    if (effort != "low" && effort != "high" && effort != "max") {
      fail(ErrorCode::kUsage, "thinking_effort: expected low, high or max, found \"{}\"", effort);
    }
    note("thinking-effort", fmt::format("{}{}`.", kEffortBegin, effort));
  }

  void message(const Message& message, std::size_t idx) {
    if (message.role == "assistant") {
      assistant(message);
      return;
    }
    const bool system = message.role == "system" || message.role == "developer";
    if (!system && message.role != "user") {
      fail(ErrorCode::kUsage,
           "messages[{}].role: expected system, developer, user, assistant or tool, found \"{}\"",
           idx, message.role);
    }
    if (system && !message.tools.empty()) {
      note("tool-declare", fmt::format("{}{}{}", kExtendBegin, print_tools(message.tools), kFence));
      return;
    }
    open("message", {{"role", system ? "system" : "user"}, name_attribute(message)});
    content(message);
    close_message();
  }

  static Attribute name_attribute(const Message& message) {
    const bool named = message.name && !message.name->empty();
    return named ? Attribute{"name", *message.name} : Attribute{};
  }

  void assistant(const Message& message) {
    calls_ = message.tool_calls;
    num_results_ = 0;
    open("message", {{"role", "assistant"}, name_attribute(message)});
    if (thinking_) {
      open("think");
      out_.text(message.reasoning);
      close("think");
    }
    open("response");
    content(message);
    close("response");
    if (!message.tool_calls.empty()) {
      open("tools");
      for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
        call(message.tool_calls[i], i + 1);
      }
      close("tools");
    }
    close_message();
  }

  void call(const ToolCall& call, std::size_t number) {
    open("call", {{"tool", call.name}, {"index", std::to_string(number)}});
    if (call.form == ArgumentsForm::kObject) {
      object_arguments(call);
    } else if (!call.arguments.empty()) {
      text_arguments(call.arguments);
    }
    close("call");
  }

  void object_arguments(const ToolCall& call) {
    const JsonValue object = parse_json(call.arguments, "arguments of " + call.name);
    if (object.kind != JsonValue::Kind::kObject) {
      fail(ErrorCode::kUsage, "arguments of {}: expected an object, found {}", call.name,
           kind_name(object.kind));
    }
    for (const auto& [key, value] : object.members) {
      const bool string = value.kind == JsonValue::Kind::kString;
      argument(key, value.kind, string ? value.text : print_json(value, JsonStyle::kDefault));
    }
  }

  void text_arguments(std::string_view text) {
    const auto members = read_leading_object(text);
    if (!members) {
      open("json", {{"type", "object"}});
      out_.text(text);
      close("json");
      return;
    }
    for (const auto& [key, value] : *members) {
      const bool string = value.kind == JsonValue::Kind::kString;
      argument(key, value.kind, string ? value.text : value.source);
    }
  }

  void argument(std::string_view key, JsonValue::Kind kind, std::string_view value) {
    open("argument", {{"key", key}, {"type", type_name(kind)}});
    out_.text(value);
    close("argument");
  }

  // Renders the run of tool messages that begins at `begin` and returns where it ends.
  std::size_t tool_results(std::size_t begin) {
    const std::span<const Message> messages = conversation_.messages;
    std::size_t end = begin;
    while (end < messages.size() && messages[end].role == "tool") ++end;
    const auto order = call_order(messages.subspan(begin, end - begin));
    for (std::size_t i = begin; i < end; ++i) {
      ++num_results_;
      if (order.empty()) {
        tool_result(messages[i], unmatched_name(messages[i], i));
      } else {
        const Match& match = order[i - begin];
        tool_result(messages[begin + match.message_idx], calls_[match.call_idx].name);
      }
    }
    return end;
  }

  struct Match {
    std::size_t call_idx;
    std::size_t message_idx;
  };

  // The results of a run in the order of their calls; empty unless every one names a call.
  std::vector<Match> call_order(std::span<const Message> run) const {
    std::vector<Match> order;
    for (std::size_t i = 0; i < run.size(); ++i) {
      const auto call = std::find_if(calls_.begin(), calls_.end(), [&](const ToolCall& candidate) {
        return !candidate.id.empty() && candidate.id == run[i].tool_call_id;
      });
      if (call == calls_.end()) return {};
      order.push_back({static_cast<std::size_t>(call - calls_.begin()), i});
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Match& a, const Match& b) { return a.call_idx < b.call_idx; });
    return order;
  }

  std::string_view unmatched_name(const Message& message, std::size_t idx) const {
    if (message.tool) return *message.tool;
    if (message.name) return *message.name;
    if (num_results_ <= calls_.size()) return calls_[num_results_ - 1].name;
    fail(ErrorCode::kUsage,
         "messages[{}]: tool result {} after an assistant message with {} calls has no name; give "
         "it a tool_call_id of one of them, `tool` or `name`",
         idx, num_results_, calls_.size());
  }

  void tool_result(const Message& message, std::string_view name) {
    open("message", {{"role", "tool"}, {"tool", name}, {"index", std::to_string(num_results_)}});
    content(message);
    close_message();
  }

  void choice_note() {
    switch (conversation_.tool_choice.kind) {
      case ToolChoice::Kind::kAuto:
        break;
      case ToolChoice::Kind::kNone:
        note("tool-choice", kChoiceNone);
        break;
      case ToolChoice::Kind::kRequired:
      case ToolChoice::Kind::kNamed:
        note("tool-choice", kChoiceRequired);
        break;
    }
  }

  void format_note() {
    const ResponseFormat& format = conversation_.response_format;
    if (format.kind == ResponseFormat::Kind::kText) return;
    if (format.kind == ResponseFormat::Kind::kJsonObject) {
      note("response-format", fmt::format("{}json_object{}", kFormatBegin, kFormatEnd));
      return;
    }
    const JsonValue schema = parse_json(format.schema, "response_format");
    note("response-format",
         fmt::format("{}json_schema{}{}{}{}", kFormatBegin, kFormatEnd, kSchemaBegin,
                     print_json(schema, JsonStyle::kSortedCompact), kFence));
  }

  const Conversation& conversation_;
  bool thinking_;
  SegmentList out_;
  std::span<const ToolCall> calls_;  // of the last assistant message
  std::size_t num_results_ = 0;      // since then
};

}  // namespace

std::vector<PromptSegment> render_xtml(const Conversation& conversation) {
  return XtmlRenderer(conversation).render();
}

}  // namespace baltoro
