// The prompt of the K2 format (Kimi K2, Kimi Linear): role id, name, <|im_middle|>, body,
// <|im_end|>, with nothing between messages. Text between two ids is one segment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/chat.h"

namespace baltoro {

// Special tokens of the format.
inline constexpr char kK2User[] = "<|im_user|>";
inline constexpr char kK2Assistant[] = "<|im_assistant|>";
inline constexpr char kK2System[] = "<|im_system|>";
inline constexpr char kK2Middle[] = "<|im_middle|>";
inline constexpr char kK2End[] = "<|im_end|>";
inline constexpr char kK2SectionBegin[] = "<|tool_calls_section_begin|>";
inline constexpr char kK2SectionEnd[] = "<|tool_calls_section_end|>";
inline constexpr char kK2CallBegin[] = "<|tool_call_begin|>";
inline constexpr char kK2CallArgument[] = "<|tool_call_argument_begin|>";
inline constexpr char kK2CallEnd[] = "<|tool_call_end|>";
inline constexpr char kK2ThinkBegin[] = "<think>";
inline constexpr char kK2ThinkEnd[] = "</think>";

struct K2Style {
  bool thinking_variant = false;
  std::optional<std::string> default_system;  // before a conversation without a system message
};

// The system text of K2-Instruct's and K2-Thinking's templates.
inline constexpr char kK2DefaultSystem[] = "You are Kimi, an AI assistant created by Moonshot AI.";

// The default system text in the source of a chat_template.jinja: what stands between
// "<|im_system|>system<|im_middle|>" and "<|im_end|>", if that is plain text.
std::optional<std::string> find_default_system(std::string_view jinja);

// Errors: as ChatFormat::segments.
std::vector<PromptSegment> render_k2(const Conversation& conversation, const K2Style& style);

}  // namespace baltoro
