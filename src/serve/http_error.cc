#include "serve/http_error.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace baltoro::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string_view openai_type(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view anthropic_type(int status) {
  switch (status) {
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
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ErrorShape error_shape(const HttpRequest& request) {
  const bool anthropic = request.path == "/v1/messages" ||
                         request.path.starts_with("/v1/messages/") ||
                         request.headers.find("anthropic-version") != nullptr;
  return anthropic ? ErrorShape::kAnthropic : ErrorShape::kOpenAi;
}

std::string error_body(const HttpError& error, ErrorShape shape) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json body;
  if (shape == ErrorShape::kAnthropic) {
    body = {{"type", "error"},
            {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}}};
  } else {
    body = {{"error",
             {{"message", error.message},
              {"type", openai_type(error.status)},
              {"param", or_null(error.param)},
              {"code", or_null(error.code)}}}};
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void send_error(HttpReply& reply, const HttpError& error, ErrorShape shape,
                const std::string& request_id) {
  HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (!request_id.empty()) headers.add("X-Request-Id", request_id);
  if (error.retry_after_seconds >= 0) {
    headers.add("Retry-After", std::to_string(error.retry_after_seconds));
  }
  if (error.status == 401) headers.add("WWW-Authenticate", "Bearer");
  reply.send(error.status, std::move(headers), error_body(error, shape));
}

}  // namespace baltoro::serve
