// One choice of an answer, from its tokens to what a client is told of it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/generate.h"
#include "serve/api/answer_request.h"
#include "text/answer_stream.h"

namespace baltoro::serve {

// What a token adds to an answer.
struct AnswerStep {
  std::vector<ChatDelta> deltas;
  // Where logprobs were asked for: the tokens of the content, as soon as it has been told.
  std::vector<Choice> tokens;

  bool empty() const { return deltas.empty() && tokens.empty(); }
};

// Text without channels, with the interface of AnswerStream.
class PlainStream {
 public:
  PlainStream(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), matcher_(std::move(stops)) {}

  std::vector<ChatDelta> feed(TokenId id);
  std::vector<ChatDelta> finish(bool stopped);
  bool matched() const { return matcher_.matched(); }
  const std::string* match() const { return matcher_.match(); }
  const ChatResult& raw() const { return raw_; }
  const std::string& content() const { return content_; }
  ChatResult result() const;

 private:
  std::vector<ChatDelta> add(std::string text, bool last);

  StreamDecoder decoder_;
  StopMatcher matcher_;
  ChatResult raw_;
  std::string content_;
};

// One thread at a time.
class ChoiceReader {
 public:
  ChoiceReader(const Model& model, const AnswerRequest& request);

  AnswerStep feed(const GeneratedToken& token);
  // Whether the answer has come to an end that the model did not make: a stop string.
  bool done() const { return done_; }
  // `stopped`: the model ended the answer.
  AnswerStep finish(bool stopped);

  // The rest is final after finish().
  ChatResult result() const;
  const std::string* matched_stop() const;  // null: none
  const std::vector<TokenId>& ids() const { return ids_; }
  std::int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  // A content token whose text, up to `end` bytes of the content, has not been told yet.
  struct Waiting {
    Choice choice;
    std::size_t begin;
    std::size_t end;
  };

  struct Sizes {
    std::size_t reasoning;
    std::size_t content;
  };
  Sizes sizes() const;
  void place(const Choice& choice, const Sizes& before);
  void release(std::size_t content_bytes, bool last, AnswerStep& step);

  Tokenizer tokenizer_;
  std::variant<AnswerStream, PlainStream> stream_;
  bool logprobs_;
  bool done_ = false;
  std::vector<TokenId> ids_;
  std::int64_t reasoning_tokens_ = 0;
  std::vector<Choice> unplaced_;  // tokens that may be the beginning of a character
  std::deque<Waiting> waiting_;
};

}  // namespace baltoro::serve
