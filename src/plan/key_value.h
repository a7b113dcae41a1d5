// Lists of key=value, which layouts, overrides and formats are written in, and the errors that they
// share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace baltoro::plan {

// "tp=8,ep=8" in order. Throws Error{kUsage} for an entry without a key or a value, and for a key
// that stands twice; `option` begins the message.
std::vector<std::pair<std::string, std::string>> split_key_values(std::string_view option,
                                                                  std::string_view text);

// A whole number from `least` on; throws Error{kUsage} "`name` is X; ...". `what` begins the
// message.
constexpr std::int64_t kMostCount = std::int64_t{1} << 40;
std::int64_t parse_count(std::string_view name, std::string_view text, std::int64_t least,
                         std::int64_t most = kMostCount);

// A finite number from `least` on.
double parse_number(std::string_view name, std::string_view text, double least, double most = 1e18);

// Throws Error{kUsage} `where` + "word: no such kind; did you mean ...? Known: ...".
[[noreturn]] void fail_unknown(std::string_view where, std::string_view word, std::string_view kind,
                               const std::vector<std::string>& known);

}  // namespace baltoro::plan
