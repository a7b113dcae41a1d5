#include "serve/api/errors.h"

#include <algorithm>
#include <new>
#include <string_view>

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

std::string error_event(const HttpError& error, ErrorShape shape) {
  const std::string body = error_body(error, shape);
  return shape == ErrorShape::kOpenAi ? sse_data(body) : sse_event("error", body);
}

}  // namespace baltoro::serve
