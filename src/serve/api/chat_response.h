// The answers of /v1/chat/completions.
#pragma once

#include <memory>
#include <vector>

#include "serve/api/responder.h"

namespace baltoro::serve {

// {"prompt_tokens", "completion_tokens", "total_tokens", ...}
Json usage_json(const Usage& usage);

// The object "chat.completion". `logprobs`: they were asked for.
Json chat_completion(const ResponseHead& head, const Tokenizer& tokenizer, bool logprobs,
                     const std::vector<FinishedChoice>& choices, const Usage& usage);

// Objects "chat.completion.chunk" as events, "[DONE]" at the end.
class ChatStream final : public StreamResponder {
 public:
  ChatStream(std::shared_ptr<HttpReply> reply, ResponseHead head, Tokenizer tokenizer,
             const AnswerRequest& request);
  void begin() override;
  void step(int choice, const AnswerStep& step) override;
  void end(int choice, const ChoiceEnd& end) override;
  void complete(const Usage& usage) override;

 private:
  Json chunk() const;
  void write_choice(int choice, Json delta, Json logprobs, Json finish_reason);

  ResponseHead head_;
  Tokenizer tokenizer_;
  int num_choices_;
  bool logprobs_;
  bool include_usage_;
};

}  // namespace baltoro::serve
