// JSON that remembers how it was written. Prompts must repeat numbers with all their digits and
// argument values by their source text, which a reader that converts numbers has lost.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

struct JsonMember;

struct JsonValue {
  enum class Kind : unsigned char { kNull, kBoolean, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text;              // kString: the decoded characters; kNumber, kBoolean: as written
  std::vector<JsonValue> items;  // kArray
  std::vector<JsonMember> members;  // kObject, in the order written
  std::string_view source;          // the value as written, a view into the text that was read

  // The member's value, or null if this is no object or has no such member.
  const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// "null", "a boolean", "a number", ...: for messages.
std::string_view kind_name(JsonValue::Kind kind);

// Reads one JSON text (RFC 8259) in UTF-8. Of equal keys in an object the last value stands in the
// first one's place, as in a Python dict. Throws Error{kUsage} "<what>: line L, column C: ...".
JsonValue parse_json(std::string_view text, std::string_view what);

// Whether `text` is one whole JSON value, white space around it allowed.
bool is_json(std::string_view text);

// Reads the object at the front of `text` as Python's non-strict reader does: control characters
// may stand in strings, equal keys each give a member, and what follows the closing brace is not
// looked at. Nothing if that does not fit.
std::optional<std::vector<JsonMember>> read_leading_object(std::string_view text);

}  // namespace baltoro
