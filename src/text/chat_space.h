// ASCII white space at the ends of what a model writes.
#pragma once

#include <cstddef>
#include <string_view>

namespace baltoro {

inline constexpr std::string_view kChatSpace = " \t\n\v\f\r";

inline std::string_view trim_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kChatSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kChatSpace) - begin + 1);
}

}  // namespace baltoro
