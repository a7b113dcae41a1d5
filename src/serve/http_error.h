// Errors as clients of the OpenAI interface expect them: {"error": {"message", "type", "param",
// "code"}}.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"

namespace baltoro::serve {

struct HttpError {
  int status = 500;
  std::string message = {};      // what, where, value, limit, remedy
  std::string param = {};        // the path of the field, "messages[0].content"; empty is null
  std::string code = {};         // a word for programs, "model_not_found"; empty is null
  int retry_after_seconds = -1;  // the header Retry-After; -1 is none
};

// Of a status: "invalid_request_error", "rate_limit_error" or "server_error".
std::string_view error_type(int status);
// The JSON text. Bytes that are no UTF-8 become U+FFFD.
std::string error_body(const HttpError& error);
void send_error(HttpReply& reply, const HttpError& error);

}  // namespace baltoro::serve
