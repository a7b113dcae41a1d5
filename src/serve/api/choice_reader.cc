#include "serve/api/choice_reader.h"

#include <utility>

namespace baltoro::serve {
namespace {

std::variant<AnswerStream, PlainStream> make_stream(const Model& model,
                                                    const AnswerRequest& request) {
  if (request.conversation == nullptr) return PlainStream(model.tokenizer, request.fields.stops);
  return AnswerStream(model.require_format().parser(*request.conversation, request.call_id_prefix),
                      request.fields.stops);
}

}  // namespace

std::vector<ChatDelta> PlainStream::feed(TokenId id) { return add(decoder_.feed(id), false); }

std::vector<ChatDelta> PlainStream::finish(bool stopped) {
  raw_.finish_reason = stopped ? FinishReason::kStop : FinishReason::kLength;
  return add(decoder_.finish(), true);
}

std::vector<ChatDelta> PlainStream::add(std::string text, bool last) {
  raw_.content += text;
  std::string shown = matcher_.feed(text);
  if (last) shown += matcher_.finish();
  if (shown.empty()) return {};
  content_ += shown;
  ChatDelta delta;
  delta.kind = ChatDelta::Kind::kContent;
  delta.text = std::move(shown);
  return {std::move(delta)};
}

ChatResult PlainStream::result() const {
  ChatResult result = raw_;
  result.content = content_;
  return result;
}

ChoiceReader::ChoiceReader(const Model& model, const AnswerRequest& request)
    : tokenizer_(model.tokenizer),
      stream_(make_stream(model, request)),
      logprobs_(request.logprobs) {}

AnswerStep ChoiceReader::feed(const GeneratedToken& token) {
  const TokenId id = token.choice.token;
  ids_.push_back(id);
  if (done_) return {};
  const bool plain = std::holds_alternative<PlainStream>(stream_);
  if (plain && token.is_stop) return {};
  const Sizes before = sizes();
  AnswerStep step;
  step.deltas = std::visit([&](auto& stream) { return stream.feed(id); }, stream_);
  done_ = std::visit([](const auto& stream) { return stream.matched(); }, stream_);
  place(token.choice, before);
  const std::size_t told =
      std::visit([](const auto& stream) { return stream.content().size(); }, stream_);
  release(told, false, step);
  return step;
}

AnswerStep ChoiceReader::finish(bool stopped) {
  AnswerStep step;
  const Sizes before = sizes();
  step.deltas = std::visit([&](auto& stream) { return stream.finish(stopped || done_); }, stream_);
  if (sizes().content > before.content && !unplaced_.empty()) {
    const Choice last = std::exchange(unplaced_.back(), {});
    unplaced_.pop_back();
    place(last, before);
  }
  release(result().content.size(), true, step);
  return step;
}

ChatResult ChoiceReader::result() const {
  return std::visit([](const auto& stream) { return stream.result(); }, stream_);
}

const std::string* ChoiceReader::matched_stop() const {
  return std::visit([](const auto& stream) { return stream.match(); }, stream_);
}

ChoiceReader::Sizes ChoiceReader::sizes() const {
  const ChatResult& raw =
      std::visit([](const auto& stream) -> const ChatResult& { return stream.raw(); }, stream_);
  return {raw.reasoning.size(), raw.content.size()};
}

// Says to which channel the token belongs. One that adds to none may be the beginning of a character,
// and then belongs where the character ends.
void ChoiceReader::place(const Choice& choice, const Sizes& before) {
  const Sizes after = sizes();
  unplaced_.push_back(choice);
  if (after.reasoning > before.reasoning) {
    reasoning_tokens_ += static_cast<std::int64_t>(unplaced_.size());
  } else if (after.content > before.content) {
    for (Choice& token : unplaced_) {
      if (logprobs_) waiting_.push_back({std::move(token), before.content, after.content});
    }
  } else if (!tokenizer_.is_special(choice.token)) {
    return;
  }
  unplaced_.clear();
}

void ChoiceReader::release(std::size_t content_bytes, bool last, AnswerStep& step) {
  while (!waiting_.empty()) {
    Waiting& token = waiting_.front();
    const bool told = last ? token.begin < content_bytes : token.end <= content_bytes;
    if (told) {
      step.tokens.push_back(std::move(token.choice));
    } else if (!last) {
      return;
    }
    waiting_.pop_front();
  }
}

}  // namespace baltoro::serve
