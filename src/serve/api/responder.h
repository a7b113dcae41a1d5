// From the steps of an answer to the bytes of a reply: one class for each interface and way of
// delivery.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/choice_reader.h"
#include "serve/api/errors.h"
#include "serve/api/json.h"
#include "serve/http.h"

namespace baltoro::serve {

// Tokens of a request.
struct Usage {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;  // of the prompt, not read again
  std::int64_t completion = 0;
  std::int64_t reasoning = 0;  // of the completion
};

struct ChoiceEnd {
  ChatResult result;
  std::optional<std::string> stop = {};  // the stop string that ended it
};

// What all answers to one request begin with.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

// One thread at a time. begin(), then the steps and ends of the choices in any order, then
// complete(); fail() in place of all that is left.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void begin() {}
  virtual void step(int choice, const AnswerStep& step) = 0;
  virtual void end(int choice, const ChoiceEnd& end) = 0;
  virtual void complete(const Usage& usage) = 0;
  virtual void fail(const HttpError& error) = 0;
};

struct FinishedChoice {
  ChatResult result;
  std::optional<std::string> stop;
  std::vector<Choice> tokens;  // of the content, where logprobs were asked for
};

// Sends one JSON text when all is there.
class WholeResponder final : public Responder {
 public:
  using Build = std::function<Json(const std::vector<FinishedChoice>&, const Usage&)>;

  WholeResponder(std::shared_ptr<HttpReply> reply, int num_choices, ErrorShape shape, Build build);
  void step(int choice, const AnswerStep& step) override;
  void end(int choice, const ChoiceEnd& end) override;
  void complete(const Usage& usage) override;
  void fail(const HttpError& error) override;

 private:
  std::shared_ptr<HttpReply> reply_;
  std::vector<FinishedChoice> choices_;
  ErrorShape shape_;
  Build build_;
};

// A stream of server-sent events; subclasses say which.
class StreamResponder : public Responder {
 public:
  StreamResponder(std::shared_ptr<HttpReply> reply, ErrorShape shape);
  void begin() override;
  void fail(const HttpError& error) override;

 protected:
  void write(std::string event) { reply_->write(std::move(event)); }
  void close() { reply_->end(); }

 private:
  std::shared_ptr<HttpReply> reply_;
  ErrorShape shape_;
  bool begun_ = false;
};

}  // namespace baltoro::serve
