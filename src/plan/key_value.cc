#include "plan/key_value.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "core/suggest.h"

namespace baltoro::plan {

std::vector<std::pair<std::string, std::string>> split_key_values(std::string_view option,
                                                                  std::string_view text) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == entry.size()) {
      fail(ErrorCode::kUsage, "{} \"{}\": the form is key=value,key=value", option, entry);
    }
    if (entry.find(' ') != std::string_view::npos) {
      fail(ErrorCode::kUsage, "{} \"{}\": without spaces; the form is key=value,key=value", option,
           entry);
    }
    const std::string key(entry.substr(0, equals));
    for (const auto& [earlier, value] : entries) {
      if (earlier == key) fail(ErrorCode::kUsage, "{}: {} stands twice", option, key);
    }
    entries.emplace_back(key, std::string(entry.substr(equals + 1)));
    begin = end + 1;
  }
  return entries;
}

std::int64_t parse_count(std::string_view name, std::string_view text, std::int64_t least,
                         std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorCode::kUsage, "{} is \"{}\"; it must be a whole number {}", name, text,
         most < kMostCount ? fmt::format("from {} to {}", least, most)
                           : fmt::format("from {} on", least));
  }
  if (value < least || value > most) {
    fail(ErrorCode::kUsage, "{} is {}; it must be {} {}", name, value,
         value < least ? "at least" : "at most", value < least ? least : most);
  }
  return value;
}

double parse_number(std::string_view name, std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    fail(ErrorCode::kUsage, "{} is \"{}\"; it must be a number", name, text);
  }
  if (value < least || value > most) {
    fail(ErrorCode::kUsage, "{} is {}; it must be {} {}", name, text,
         value < least ? "at least" : "at most", value < least ? least : most);
  }
  return value;
}

void fail_unknown(std::string_view where, std::string_view word, std::string_view kind,
                  const std::vector<std::string>& known) {
  const std::string similar = nearest(word, known);
  fail(ErrorCode::kUsage, "{}{}: no such {}{}; known: {}", where, word, kind,
       similar.empty() ? "" : fmt::format(", did you mean {}?", similar), fmt::join(known, ", "));
}

}  // namespace baltoro::plan
