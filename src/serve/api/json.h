// JSON that the server writes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "baltoro/tokenizer.h"

namespace baltoro::serve {

using Json = nlohmann::ordered_json;

// On one line. Bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json& json);

// With the digits that tell it from its neighbours; -infinity, which JSON lacks, is -9999 as in
// OpenAI's answers.
Json number(float value);

// "chatcmpl-" and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);

// The text of a token. Bytes that are no whole character become U+FFFD.
std::string token_text(const Tokenizer& tokenizer, TokenId id);

}  // namespace baltoro::serve
