// Errors in the shapes of both interfaces.
#pragma once

#include <string>

#include "serve/http.h"

namespace baltoro::serve {

struct HttpError {
  int status = 500;
  std::string message = {};      // what, where, value, limit, remedy
  std::string param = {};        // the path of the field, "messages[0].content"; empty is null
  std::string code = {};         // a word for programs, "model_not_found"; empty is null
  int retry_after_seconds = -1;  // the header Retry-After; -1 is none
};

enum class ErrorShape {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
};

// What the client of a request expects: Anthropic's for its routes and its clients, which say so in
// a header on the routes that both interfaces have; else OpenAI's.
ErrorShape error_shape(const HttpRequest& request);

// The JSON text. Bytes that are no UTF-8 become U+FFFD.
std::string error_body(const HttpError& error, ErrorShape shape);
// `request_id` is for the header X-Request-Id, where nobody else adds it.
void send_error(HttpReply& reply, const HttpError& error, ErrorShape shape,
                const std::string& request_id = {});

}  // namespace baltoro::serve
