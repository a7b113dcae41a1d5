#include "cli/id_list.h"

#include <charconv>

#include "core/error.h"

namespace baltoro::cli {

std::vector<TokenId> parse_ids(std::string_view text, std::string_view where) {
  constexpr std::string_view kSeparators = ", \t\r\n[]";
  std::vector<TokenId> ids;
  for (std::size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    TokenId id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0) {
      fail(ErrorCode::kUsage, "{}: \"{}\" is no token id; give numbers such as 1,2,3", where, word);
    }
    ids.push_back(id);
    begin = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

}  // namespace baltoro::cli
