#include "io/json_file.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace baltoro {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;
// A reason quotes what was read, which may be long.
constexpr std::size_t kMaxReason = 120;

// What is left of "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error
// while parsing value - unexpected end of input" behind the parser's names and its own position.
std::string reason_of(std::string_view what) {
  if (const std::size_t id = what.find("] "); what.starts_with('[') && id < what.size()) {
    what.remove_prefix(id + 2);
  }
  if (const std::size_t colon = what.find(": ");
      what.starts_with("parse error") && colon < what.size()) {
    what.remove_prefix(colon + 2);
  }
  if (const std::size_t dash = what.find(" - ");
      what.starts_with("syntax error") && dash < what.size()) {
    what.remove_prefix(dash + 3);
  }
  if (what.size() <= kMaxReason) return std::string(what);
  return std::string(what.substr(0, kMaxReason)) + "...";
}

// Empties `value` from its leaves up; an empty container goes without asking for memory.
void dismantle(json& value) noexcept {
  if (!value.is_structured()) return;
  for (json& child : value) dismantle(child);
  value.clear();
}

// Builds the document from the parser's events.
class DocumentReader : public nlohmann::json_sax<json> {
 public:
  DocumentReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}
  DocumentReader(const DocumentReader&) = delete;
  DocumentReader& operator=(const DocumentReader&) = delete;
  ~DocumentReader() override { dismantle(root_); }

  JsonDocument take() { return JsonDocument(std::move(root_)); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in a text

  bool start_object(std::size_t) override { return open(json::value_t::object); }
  bool start_array(std::size_t) override { return open(json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      fail(ErrorCode::kBadModel, "{}: the key \"{}\" stands twice in one object; keep one", where_,
           name);
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(ErrorCode::kBadModel, "{}: {}", where_, json_fault(text_, byte, error.what()));
  }

 private:
  json& place() {
    if (open_.empty()) return root_;
    json& parent = *open_.back();
    return parent.is_object() ? parent[key_] : parent.emplace_back();
  }
  template <typename Value>
  bool add(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(json::value_t kind) {
    if (open_.size() == kMaxDepth) {
      fail(ErrorCode::kBadModel, "{}: nested deeper than {} levels", where_, kMaxDepth);
    }
    json& opened = place();
    opened = kind;
    open_.push_back(&opened);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& where_;
  json root_;
  std::vector<json*> open_;  // from the root down; a container that is open does not move
  std::string key_;
};

}  // namespace

std::string text_position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

std::string json_fault(std::string_view text, std::size_t byte, std::string_view what) {
  return fmt::format("{}: not valid JSON: {}", text_position(text, byte > 0 ? byte - 1 : 0),
                     reason_of(what));
}

JsonDocument::~JsonDocument() { dismantle(root_); }

JsonDocument parse_json(std::string_view text, const std::string& where) {
  DocumentReader reader(text, where);
  json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace baltoro
