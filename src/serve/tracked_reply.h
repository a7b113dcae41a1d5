// A reply that adds the headers that all answers have, and knows at its end what the log and the
// metrics say of the request.
#pragma once

#include <functional>
#include <memory>

#include "serve/access_log.h"
#include "serve/http.h"

namespace baltoro::serve {

// What is told of a request.
struct RequestWatch {
  std::function<void(double seconds)> first_token;
  std::function<void(double seconds)> between_tokens;
  // Once, at the end of the answer: complete, dropped (500), or left by the client (499). Any
  // thread.
  std::function<void(const RequestRecord&)> done;
};

// `record` as it is at the start of the request; `headers` go before those of the answer.
std::shared_ptr<HttpReply> track(std::shared_ptr<HttpReply> reply, RequestRecord record,
                                 HttpHeaders headers, RequestWatch watch);

}  // namespace baltoro::serve
