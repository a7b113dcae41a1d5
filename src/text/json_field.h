// A value of a request together with its place in it, so that every refusal names the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_value.h"

namespace baltoro {

// Borrows the value. What is null counts as missing. The readers throw Error{kUsage}
// "messages[2].content: expected ..., found ...".
struct JsonField {
  const JsonValue* value = nullptr;  // null where the value is missing
  std::string path = {};             // empty: the whole request

  bool present() const { return value != nullptr && value->kind != JsonValue::Kind::kNull; }
  bool is(JsonValue::Kind kind) const { return value != nullptr && value->kind == kind; }

  JsonField operator[](std::string_view key) const;
  // The elements of an array; none where it is missing or something else.
  std::vector<JsonField> items() const;

  [[noreturn]] void refuse(std::string_view expected) const;
  void expect(JsonValue::Kind kind, std::string_view expected) const;

  std::string required_string() const;
  std::optional<std::string> optional_string() const;
  std::optional<bool> optional_bool() const;
  // A number that a double can hold.
  std::optional<double> optional_number() const;
  // A number without a fraction, 1.0 and 1e3 too, that fits 64 bits.
  std::optional<std::int64_t> optional_integer() const;
};

}  // namespace baltoro
