// /v1/completions: text that goes on from a prompt, without a chat format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/api/answer_request.h"
#include "serve/api/responder.h"
#include "text/json_field.h"

namespace baltoro::serve {

struct CompletionRequest {
  AnswerRequest answer;
  // What each choice begins with: the text of its prompt where `echo` asks for it, else nothing.
  std::vector<std::string> echo;
};

// Throws Error{kUsage} naming the path of a wrong value, Error{kUnsupported}, RequestError as
// answer_length.
CompletionRequest parse_completion_request(const JsonField& request, const Model& model);

// The object "text_completion".
Json text_completion(const ResponseHead& head, const Tokenizer& tokenizer,
                     const CompletionRequest& request, const std::vector<FinishedChoice>& choices,
                     const Usage& usage);

// The same object in pieces as events, "[DONE]" at the end.
class CompletionStream final : public StreamResponder {
 public:
  CompletionStream(std::shared_ptr<HttpReply> reply, ResponseHead head, Tokenizer tokenizer,
                   const CompletionRequest& request);
  void begin() override;
  void step(int choice, const AnswerStep& step) override;
  void end(int choice, const ChoiceEnd& end) override;
  void complete(const Usage& usage) override;

 private:
  void write_choice(int choice, const std::string& text, Json logprobs, Json finish_reason);

  ResponseHead head_;
  Tokenizer tokenizer_;
  std::vector<std::string> echo_;
  bool logprobs_;
  bool include_usage_;
  std::vector<std::int64_t> offsets_;  // characters of each choice's text so far
};

}  // namespace baltoro::serve
