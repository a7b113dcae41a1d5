// Prints JSON the way Python's json.dumps(ensure_ascii=False) does, which is what the models were
// trained on, to the byte.
#pragma once

#include <string>
#include <string_view>

#include "text/json_value.h"

namespace baltoro {

enum class JsonStyle {
  kDefault,        // ", " and ": ", keys as they stand
  kSortedCompact,  // "," and ":", keys of every object in the order of their UTF-8 bytes
};

// Escapes are \" \\ \b \f \n \r \t and \u00xx for the other characters below U+0020; integers
// keep their digits (-0 is 0); other numbers are printed as the shortest text that reads back to
// the same double.
std::string print_json(const JsonValue& value, JsonStyle style);

// The string with its quotes.
std::string quote_json(std::string_view text);

// The inside of the string: escape_json(a + b) == escape_json(a) + escape_json(b).
std::string escape_json(std::string_view text);

}  // namespace baltoro
