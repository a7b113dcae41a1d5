#include "serve/api/responder.h"

#include <iterator>
#include <utility>

#include "serve/api/sse.h"

namespace baltoro::serve {

WholeResponder::WholeResponder(std::shared_ptr<HttpReply> reply, int num_choices, ErrorShape shape,
                               Build build)
    : reply_(std::move(reply)),
      choices_(static_cast<std::size_t>(num_choices)),
      shape_(shape),
      build_(std::move(build)) {}

void WholeResponder::step(int choice, const AnswerStep& step) {
  auto& tokens = choices_[static_cast<std::size_t>(choice)].tokens;
  tokens.insert(tokens.end(), step.tokens.begin(), step.tokens.end());
}

void WholeResponder::end(int choice, const ChoiceEnd& end) {
  FinishedChoice& finished = choices_[static_cast<std::size_t>(choice)];
  finished.result = end.result;
  finished.stop = end.stop;
}

void WholeResponder::complete(const Usage& usage) {
  reply_->send(200, {{"Content-Type", "application/json"}}, dump(build_(choices_, usage)));
}

void WholeResponder::fail(const HttpError& error) { send_error(*reply_, error, shape_); }

StreamResponder::StreamResponder(std::shared_ptr<HttpReply> reply, ErrorShape shape)
    : reply_(std::move(reply)), shape_(shape) {}

void StreamResponder::begin() {
  begun_ = true;
  reply_->begin_stream(200, sse_headers());
}

void StreamResponder::fail(const HttpError& error) {
  if (!begun_) return send_error(*reply_, error, shape_);
  write(error_event(error, shape_));
  close();
}

}  // namespace baltoro::serve
