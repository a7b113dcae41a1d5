#include "serve/http_target.h"

#include <fmt/format.h>

#include <algorithm>

namespace baltoro::serve {
namespace {

HttpError bad_request(std::string message) {
  return {.status = 400, .message = std::move(message)};
}

bool is_id_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

std::optional<HttpError> read_target(std::string_view target, unsigned version,
                                     HttpRequest& request) {
  // A proxy's form of the target names the host before the path.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/') && !(target == "*" && request.method == "OPTIONS")) {
    return bad_request("the target of the request must be a path that begins with /");
  }
  const std::size_t mark = target.find('?');
  request.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) request.query = std::string(target.substr(mark + 1));
  const auto& fields = request.headers.fields();
  const auto num_hosts = std::count_if(fields.begin(), fields.end(), [](const auto& field) {
    return HttpHeaders::same_name(field.first, "host");
  });
  if (num_hosts > 1 || (num_hosts == 0 && version >= 11)) {
    return bad_request(
        fmt::format("the request has {} Host headers; HTTP/1.1 needs one", num_hosts));
  }
  const std::string* expect = request.headers.find("expect");
  if (expect != nullptr && !HttpHeaders::same_name(*expect, "100-continue")) {
    return HttpError{.status = 417, .message = "Expect may be 100-continue alone"};
  }
  return std::nullopt;
}

std::string request_id(const HttpHeaders& headers, std::string_view prefix, std::uint64_t number) {
  const std::string* given = headers.find("x-request-id");
  if (given != nullptr && !given->empty() && given->size() <= 64 &&
      std::all_of(given->begin(), given->end(), is_id_char)) {
    return *given;
  }
  return fmt::format("{}-{:x}", prefix, number);
}

}  // namespace baltoro::serve
