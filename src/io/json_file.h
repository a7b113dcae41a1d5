// JSON files of a checkpoint. Every message carries file, line and column, and a key that stands
// twice in one object is an error: which of the two would count is a matter of the parser.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace baltoro {

// A value that owns all below it and asks for no memory when it goes: the destructor of a
// nlohmann::json gathers nested values in a vector, and where that fails the program ends.
class JsonDocument {
 public:
  // Nested at most 64 deep.
  explicit JsonDocument(nlohmann::json&& root) noexcept : root_(std::move(root)) {}
  JsonDocument(JsonDocument&& other) noexcept : root_(std::move(other.root_)) {}
  JsonDocument& operator=(JsonDocument&&) = delete;
  ~JsonDocument();

  const nlohmann::json& operator*() const { return root_; }
  const nlohmann::json* operator->() const { return &root_; }

 private:
  nlohmann::json root_;
};

// `where` names the text in messages. Throws Error{kBadModel} on malformed text, a repeated key, or
// nesting deeper than 64.
JsonDocument parse_json(std::string_view text, const std::string& where);

// The fault of a JSON parser for a message, such as "line 1, column 2: not valid JSON: unexpected
// end of input; expected string literal". `byte` is 1-based and counts what was read; the culprit
// is the last one of them. `what` is the parser's own text, of which the reason is kept.
std::string json_fault(std::string_view text, std::size_t byte, std::string_view what);

// "line 3, column 14" of a byte position (0-based) in text.
std::string text_position(std::string_view text, std::size_t byte);

}  // namespace baltoro
