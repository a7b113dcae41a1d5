// Lists and counts in messages.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// "a, b and 7 more": the first `most` of `names`, which begin a list of `total`.
inline std::string list_names(const std::vector<std::string>& names, std::uint64_t total,
                              std::size_t most, std::string_view separator = ", ") {
  const auto shown = std::span(names).first(std::min(names.size(), most));
  std::string text = fmt::format("{}", fmt::join(shown, separator));
  if (shown.size() < total) text += fmt::format(" and {} more", total - shown.size());
  return text;
}

// "1 tensor is" or "7 tensors are": the words of one and of any other number.
inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace baltoro
