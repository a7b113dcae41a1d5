// JSON files of a checkpoint. Every message carries file, line and column, and a key that stands
// twice in one object is an error: which of the two would count is a matter of the parser.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace baltoro {

// `where` names the text in messages. Throws Error{kBadModel} on malformed text, a repeated key, or
// nesting deeper than 64.
nlohmann::json parse_json(std::string_view text, const std::string& where);

// The fault of a JSON parser for a message, such as "line 1, column 2: not valid JSON: unexpected
// end of input; expected string literal". `byte` is 1-based and counts what was read; the culprit
// is the last one of them. `what` is the parser's own text, of which the reason is kept.
std::string json_fault(std::string_view text, std::size_t byte, std::string_view what);

// "line 3, column 14" of a byte position (0-based) in text.
std::string text_position(std::string_view text, std::size_t byte);

}  // namespace baltoro
