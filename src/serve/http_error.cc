#include "serve/http_error.h"

#include <nlohmann/json.hpp>

namespace baltoro::serve {

std::string_view error_type(int status) {
  switch (status) {
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string error_body(const HttpError& error) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Json body = {{"error",
                      {{"message", error.message},
                       {"type", error_type(error.status)},
                       {"param", or_null(error.param)},
                       {"code", or_null(error.code)}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void send_error(HttpReply& reply, const HttpError& error) {
  HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (error.retry_after_seconds >= 0) {
    headers.add("Retry-After", std::to_string(error.retry_after_seconds));
  }
  if (error.status == 401) headers.add("WWW-Authenticate", "Bearer");
  reply.send(error.status, std::move(headers), error_body(error));
}

}  // namespace baltoro::serve
