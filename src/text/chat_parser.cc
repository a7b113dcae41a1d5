// ChatParser: ids become markers and whole characters, which the parser of the format understands.
#include <algorithm>

#include "baltoro/chat.h"
#include "core/error.h"
#include "text/chat_output.h"
#include "text/utf8.h"

namespace baltoro {

ChatParser::ChatParser(std::unique_ptr<ChatOutputParser> parser, Tokenizer tokenizer,
                       std::vector<std::pair<TokenId, ChatMarker>> markers)
    : parser_(std::move(parser)), tokenizer_(std::move(tokenizer)), markers_(std::move(markers)) {}

ChatParser::~ChatParser() = default;
ChatParser::ChatParser(ChatParser&&) noexcept = default;
ChatParser& ChatParser::operator=(ChatParser&&) noexcept = default;

std::vector<ChatDelta> ChatParser::feed(TokenId id) {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (parser_->ended()) return {};
  if (!tokenizer_.is_special(id)) {
    pending_ += bytes;
    const std::string text = take_complete_utf8(pending_, InvalidUtf8::kReplace);
    if (!text.empty()) parser_->text(text);
    return parser_->answer().take_deltas();
  }
  const auto marker = std::find_if(markers_.begin(), markers_.end(),
                                   [&](const auto& entry) { return entry.first == id; });
  if (marker != markers_.end()) {
    flush();
    parser_->marker(marker->second);
  }
  return parser_->answer().take_deltas();
}

std::vector<ChatDelta> ChatParser::finish(bool stopped) {
  flush();
  if (stopped && !parser_->ended()) parser_->marker(ChatMarker::kEnd);
  parser_->answer().finish(parser_->ended());
  return parser_->answer().take_deltas();
}

const ChatResult& ChatParser::result() const { return parser_->answer().result(); }

// A character that a marker or the end cuts off stays visible as U+FFFD.
void ChatParser::flush() {
  if (pending_.empty()) return;
  pending_.clear();
  parser_->text("\xEF\xBF\xBD");
}

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
  }
  return "unknown";
}

Message to_message(const ChatResult& result) {
  Message message;
  message.role = "assistant";
  if (!result.content.empty()) message.content = {result.content};
  message.reasoning = result.reasoning;
  message.tool_calls = result.tool_calls;
  return message;
}

}  // namespace baltoro
