#include "serve/api/errors.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "serve/api/json.h"
#include "serve/api/sse.h"

namespace baltoro::serve {
namespace {

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kUnsupported:
    case ErrorCode::kDoesNotFit:
      return 400;
    case ErrorCode::kOutOfMemory:
      return 503;
    case ErrorCode::kBadModel:
    case ErrorCode::kIo:
    case ErrorCode::kDevice:
    case ErrorCode::kNonFinite:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

std::string leading_path(std::string_view message) {
  const std::size_t end = message.find(": ");
  if (end == std::string_view::npos) return {};
  const std::string_view path = message.substr(0, end);
  const bool plain = std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.[]$-").find(c) != std::string_view::npos;
  });
  return plain && path != "request" ? std::string(path) : std::string();
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 400:
    case 405:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

HttpError describe(const std::exception& exception) {
  if (const auto* request = dynamic_cast<const RequestError*>(&exception)) return request->http();
  HttpError out;
  out.message = exception.what();
  const auto* error = dynamic_cast<const Error*>(&exception);
  if (error == nullptr) {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
    if (memory) out.message = "the server has no memory left for this request; try again later";
    out.status = memory ? 503 : 500;
    return out;
  }
  out.status = status_of(error->code());
  if (out.status == 400) out.param = leading_path(out.message);
  if (error->code() == ErrorCode::kUnsupported) out.code = "unsupported_value";
  if (error->code() == ErrorCode::kDoesNotFit) out.code = "context_length_exceeded";
  return out;
}

std::string error_body(const HttpError& error, ErrorShape shape) {
  if (shape == ErrorShape::kOpenAi) return error_body(error);
  return dump({{"type", "error"},
               {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}}});
}

void send_error(HttpReply& reply, const HttpError& error, ErrorShape shape) {
  if (shape == ErrorShape::kOpenAi) return send_error(reply, error);
  HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (error.retry_after_seconds >= 0) {
    headers.add("Retry-After", std::to_string(error.retry_after_seconds));
  }
  reply.send(error.status, std::move(headers), error_body(error, shape));
}

std::string error_event(const HttpError& error, ErrorShape shape) {
  const std::string body = error_body(error, shape);
  return shape == ErrorShape::kOpenAi ? sse_data(body) : sse_event("error", body);
}

}  // namespace baltoro::serve
