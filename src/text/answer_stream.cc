#include "text/answer_stream.h"

#include <utility>

namespace baltoro {

AnswerStream::AnswerStream(ChatParser parser, std::vector<std::string> stops)
    : parser_(std::move(parser)), matcher_(std::move(stops)) {}

std::vector<ChatDelta> AnswerStream::feed(TokenId id) { return cut(parser_.feed(id)); }

std::vector<ChatDelta> AnswerStream::finish(bool stopped) {
  std::vector<ChatDelta> deltas = cut(parser_.finish(stopped));
  std::string held = matcher_.finish();
  if (!held.empty()) {
    content_ += held;
    ChatDelta& last = deltas.emplace_back();
    last.kind = ChatDelta::Kind::kContent;
    last.text = std::move(held);
  }
  return deltas;
}

std::vector<ChatDelta> AnswerStream::cut(std::vector<ChatDelta> deltas) {
  std::vector<ChatDelta> out;
  for (ChatDelta& delta : deltas) {
    if (matcher_.matched()) break;
    if (delta.kind == ChatDelta::Kind::kContent) {
      delta.text = matcher_.feed(delta.text);
      content_ += delta.text;
      if (delta.text.empty()) continue;
    }
    out.push_back(std::move(delta));
  }
  return out;
}

ChatResult AnswerStream::result() const {
  ChatResult result = parser_.result();
  result.content = content_;
  return result;
}

}  // namespace baltoro
