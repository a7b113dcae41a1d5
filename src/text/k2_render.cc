#include "text/k2_render.h"

#include <cstddef>
#include <span>

#include "core/error.h"
#include "text/chat_segments.h"
#include "text/chat_tools.h"
#include "text/json_print.h"
#include "text/json_value.h"
#include "text/k2_call_ids.h"

namespace baltoro {
namespace {

// What the prompt cannot say must not be dropped without a word.
void refuse_options(const Conversation& conversation, const K2Style& style) {
  if (conversation.thinking && *conversation.thinking != style.thinking_variant) {
    fail(ErrorCode::kUnsupported, "thinking: this model {}; leave the option out",
         style.thinking_variant ? "always thinks" : "has no thinking channel");
  }
}

class K2Renderer {
 public:
  K2Renderer(const Conversation& conversation, const K2Style& style)
      : conversation_(conversation), style_(style) {}

  std::vector<PromptSegment> render() {
    refuse_options(conversation_, style_);
    declare_tools();
    default_system();
    const std::span<const Message> messages = conversation_.messages;
    const std::size_t num_without_reasoning = first_with_reasoning();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      if (!message.tools.empty()) {
        fail(ErrorCode::kUnsupported,
             "messages[{}].tools: the K2 chat format declares tools only before the first message",
             i);
      }
      begin(message);
      if (message.role == "assistant") {
        assistant(message, i >= num_without_reasoning);
      } else {
        if (message.role == "tool") result_head(message, i);
        content(message);
      }
      out_.control(kK2End);
    }
    if (conversation_.add_generation_prefix) begin(kK2Assistant, "assistant");
    return out_.take();
  }

 private:
  void begin(std::string_view role_marker, std::string_view name) {
    out_.control(role_marker);
    out_.join(name);
    out_.control(kK2Middle);
  }

  void begin(const Message& message) {
    const bool named = message.name && !message.name->empty();
    std::string_view marker = kK2System;
    if (message.role == "user") marker = kK2User;
    if (message.role == "assistant") marker = kK2Assistant;
    begin(marker, named ? *message.name : message.role);
  }

  void content(const Message& message) {
    for (const std::string& part : message.content) out_.join(part);
  }

  // With tool_choice "none" the tools stay undeclared, and with a named one the others: the format
  // has no other way to say it.
  void declare_tools() {
    const ToolChoice& choice = conversation_.tool_choice;
    if (choice.kind == ToolChoice::Kind::kNone) return;
    const bool named = choice.kind == ToolChoice::Kind::kNamed;
    if (conversation_.tools.empty() && !named) return;
    const std::string json =
        named ? print_tool(conversation_.tools, choice.name) : print_tools(conversation_.tools);
    if (json == "[]") return;
    begin(kK2System, "tool_declare");
    out_.join(json);
    out_.control(kK2End);
  }

  void default_system() {
    const auto& messages = conversation_.messages;
    const bool wanted =
        messages.empty() ? style_.thinking_variant : messages.front().role != "system";
    if (!wanted || !style_.default_system) return;
    begin(kK2System, "system");
    out_.join(*style_.default_system);
    out_.control(kK2End);
  }

  // Messages up to the last plain answer have lost their reasoning; only a tool loop that is still
  // running keeps it.
  std::size_t first_with_reasoning() const {
    const auto& messages = conversation_.messages;
    for (std::size_t i = messages.size(); i > 0; --i) {
      const Message& message = messages[i - 1];
      if (message.role == "assistant" && message.tool_calls.empty()) return i;
    }
    return 0;
  }

  void assistant(const Message& message, bool with_reasoning) {
    if (style_.thinking_variant) {
      out_.control(kK2ThinkBegin);
      if (with_reasoning) out_.join(message.reasoning);
      out_.control(kK2ThinkEnd);
    }
    content(message);
    if (message.tool_calls.empty()) return;
    out_.control(kK2SectionBegin);
    for (const ToolCall& call : message.tool_calls) {
      out_.control(kK2CallBegin);
      out_.join(ids_.of_call(call));
      out_.control(kK2CallArgument);
      out_.join(arguments(call));
      out_.control(kK2CallEnd);
    }
    out_.control(kK2SectionEnd);
  }

  static std::string arguments(const ToolCall& call) {
    if (call.form == ArgumentsForm::kText) return call.arguments;
    const JsonValue object = parse_json(call.arguments, "arguments of " + call.name);
    return print_json(object, JsonStyle::kDefault);
  }

  void result_head(const Message& message, std::size_t idx) {
    const std::string id = ids_.of_result(message);
    if (id.empty()) {
      fail(ErrorCode::kUsage,
           "messages[{}]: a tool result without tool_call_id, and no call before it is unanswered",
           idx);
    }
    out_.join("## Return of " + id + "\n");
  }

  const Conversation& conversation_;
  const K2Style& style_;
  SegmentList out_;
  K2CallIds ids_;
};

}  // namespace

std::optional<std::string> find_default_system(std::string_view jinja) {
  constexpr std::string_view kBegin = "<|im_system|>system<|im_middle|>";
  std::size_t begin = jinja.find(kBegin);
  while (begin != std::string_view::npos) {
    begin += kBegin.size();
    const std::size_t end = jinja.find(kK2End, begin);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = jinja.substr(begin, end - begin);
    const bool plain =
        text.find("{{") == std::string_view::npos && text.find("{%") == std::string_view::npos;
    if (plain) return std::string(text);
    begin = jinja.find(kBegin, begin);
  }
  return std::nullopt;
}

std::vector<PromptSegment> render_k2(const Conversation& conversation, const K2Style& style) {
  return K2Renderer(conversation, style).render();
}

}  // namespace baltoro
