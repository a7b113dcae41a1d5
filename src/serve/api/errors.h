// Refusals: the exception that carries an HTTP status, and what others become.
#pragma once

#include <exception>
#include <string>

#include "baltoro/error.h"
#include "serve/http_error.h"

namespace baltoro::serve {

// A refusal whose status and code are known where it is made. Other errors get theirs by describe().
class RequestError : public Error {
 public:
  explicit RequestError(HttpError error)
      : Error(ErrorCode::kUsage, error.message), error_(std::move(error)) {}
  const HttpError& http() const noexcept { return error_; }

 private:
  HttpError error_;
};

// Of an exception that left the handling of a request. A message about a field begins with its path,
// "messages[2].content: ...", which becomes `param`.
HttpError describe(const std::exception& exception);

// The last event of a stream that failed after it had begun.
std::string error_event(const HttpError& error, ErrorShape shape);

}  // namespace baltoro::serve
