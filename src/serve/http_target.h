// The parts of a request's header that the server itself reads: the target, Host, Expect and the
// id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"
#include "serve/http_error.h"

namespace baltoro::serve {

// Fills path and query of `request`, whose headers are there. `version` is 10 or 11. An error where
// the header is not one that can be answered.
std::optional<HttpError> read_target(std::string_view target, unsigned version,
                                     HttpRequest& request);

// The client's x-request-id where it has 1 to 64 letters, digits, '-', '_' and '.'; else `prefix`
// and `number`.
std::string request_id(const HttpHeaders& headers, std::string_view prefix, std::uint64_t number);

}  // namespace baltoro::serve
