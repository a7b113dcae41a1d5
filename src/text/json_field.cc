#include "text/json_field.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/error.h"

namespace baltoro {

using Kind = JsonValue::Kind;

JsonField JsonField::operator[](std::string_view key) const {
  return {value == nullptr ? nullptr : value->find(key),
          path.empty() ? std::string(key) : fmt::format("{}.{}", path, key)};
}

std::vector<JsonField> JsonField::items() const {
  std::vector<JsonField> fields;
  if (value == nullptr) return fields;
  for (const JsonValue& item : value->items) {
    fields.push_back({&item, fmt::format("{}[{}]", path, fields.size())});
  }
  return fields;
}

void JsonField::refuse(std::string_view expected) const {
  fail(ErrorCode::kUsage, "{}: expected {}, found {}", path.empty() ? "request" : path, expected,
       value == nullptr ? "nothing" : kind_name(value->kind));
}

void JsonField::expect(Kind kind, std::string_view expected) const {
  if (!is(kind)) refuse(expected);
}

std::string JsonField::required_string() const {
  expect(Kind::kString, "a string");
  return value->text;
}

std::optional<std::string> JsonField::optional_string() const {
  if (!present()) return std::nullopt;
  expect(Kind::kString, "a string or null");
  return value->text;
}

std::optional<bool> JsonField::optional_bool() const {
  if (!present()) return std::nullopt;
  expect(Kind::kBoolean, "a boolean");
  return value->text == "true";
}

std::optional<double> JsonField::optional_number() const {
  if (!present()) return std::nullopt;
  expect(Kind::kNumber, "a number");
  const double number = std::strtod(value->text.c_str(), nullptr);
  if (!std::isfinite(number)) {
    fail(ErrorCode::kUsage, "{}: {} is too large for a number", path, value->text);
  }
  return number;
}

std::optional<std::int64_t> JsonField::optional_integer() const {
  if (!present()) return std::nullopt;
  expect(Kind::kNumber, "an integer");
  const std::string& text = value->text;
  std::int64_t integer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error == std::errc() && end == text.data() + text.size()) return integer;
  constexpr double kLimit = 9007199254740992;  // every integer up to here is a double
  const double number = optional_number().value_or(0);
  if (std::trunc(number) != number || std::fabs(number) > kLimit) {
    fail(ErrorCode::kUsage, "{}: expected an integer of at most 64 bits, found {}", path, text);
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace baltoro
