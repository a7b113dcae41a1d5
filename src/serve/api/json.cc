#include "serve/api/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "text/utf8.h"

namespace baltoro::serve {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json number(float value) {
  if (!std::isfinite(value)) return value > 0 ? 9999.0 : -9999.0;
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

std::string random_id(std::string_view prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:08x}", prefix, random(), random() >> 32);
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  std::string bytes(tokenizer.token_bytes(id));
  std::string text = take_complete_utf8(bytes, InvalidUtf8::kReplace);
  if (!bytes.empty()) text += "\xEF\xBF\xBD";
  return text;
}

}  // namespace baltoro::serve
