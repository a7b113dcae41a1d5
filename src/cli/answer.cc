#include "cli/answer.h"

#include <utility>

namespace baltoro::cli {

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

Answer generate_answer(Session& session, const Tokenizer& tokenizer, ChatParser parser,
                       GenerateOptions options,
                       const std::function<void(const ChatDelta&)>& on_delta,
                       const std::function<bool()>& cancelled) {
  // In the raw text they would also be found in the reasoning and across markers.
  AnswerStream stream(std::move(parser), std::exchange(options.stop_strings, {}));
  const auto forward = [&](const std::vector<ChatDelta>& deltas) {
    if (!on_delta) return;
    for (const ChatDelta& delta : deltas) on_delta(delta);
  };
  const Generation generation =
      generate(session, &tokenizer, options, [&](const GeneratedToken& token) {
        forward(stream.feed(token.choice.token));
        return !stream.matched() && !(cancelled && cancelled());
      });
  forward(stream.finish(stream.matched() || generation.reason == StopReason::kStopToken));
  return {.result = stream.result(),
          .num_tokens = static_cast<std::int64_t>(generation.ids.size()),
          .cancelled = generation.reason == StopReason::kCancelled && !stream.matched()};
}

}  // namespace baltoro::cli
