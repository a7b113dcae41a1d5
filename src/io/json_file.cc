#include "io/json_file.h"

#include <algorithm>
#include <set>
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

// Watches the parser's events: one set of seen keys for each open object, an empty one for an
// array.
class KeyGuard {
 public:
  explicit KeyGuard(const std::string& where) : where_(where) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (keys_.size() == kMaxDepth) {
          fail(ErrorCode::kBadModel, "{}: nested deeper than {} levels", where_, kMaxDepth);
        }
        keys_.emplace_back();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        check_key(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  void check_key(const std::string& key) {
    if (!keys_.back().insert(key).second) {
      fail(ErrorCode::kBadModel, "{}: the key \"{}\" stands twice in one object; keep one", where_,
           key);
    }
  }

  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
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

json parse_json(std::string_view text, const std::string& where) {
  try {
    return json::parse(text, KeyGuard(where));
  } catch (const json::parse_error& error) {
    fail(ErrorCode::kBadModel, "{}: {}", where, json_fault(text, error.byte, error.what()));
  } catch (const json::exception& error) {
    fail(ErrorCode::kBadModel, "{}: not valid JSON: {}", where, reason_of(error.what()));
  }
}

}  // namespace baltoro
