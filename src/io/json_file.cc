#include "io/json_file.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/error.h"
#include "io/file_reader.h"

namespace baltoro {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

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

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const FileReader file(path);
  if (file.size() > limit) {
    fail(ErrorCode::kBadModel, "{}: {} bytes exceed the limit of {} for such a file", path.string(),
         file.size(), limit);
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string text_position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

json parse_json(std::string_view text, const std::string& where) {
  try {
    return json::parse(text, KeyGuard(where));
  } catch (const json::parse_error& error) {
    // The byte is 1-based and counts what was read; the culprit is the last one of them.
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    fail(ErrorCode::kBadModel, "{}: {}: not valid JSON ({})", where, text_position(text, byte),
         error.what());
  } catch (const json::exception& error) {
    fail(ErrorCode::kBadModel, "{}: not valid JSON ({})", where, error.what());
  }
}

}  // namespace baltoro
