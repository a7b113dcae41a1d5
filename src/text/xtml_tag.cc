#include "text/xtml_tag.h"

#include <algorithm>
#include <cstddef>

#include "text/chat_space.h"

namespace baltoro {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (;;) {
    const std::size_t pos = text.find(from);
    out.append(text.substr(0, pos));
    if (pos == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(pos + from.size());
  }
}

std::string unescape(std::string_view value) {
  return replace_all(replace_all(value, "&quot;", "\""), "&amp;", "&");
}

}  // namespace

std::string_view XtmlTag::attribute(std::string_view key) const {
  const auto it = attributes.find(key);
  return it == attributes.end() ? std::string_view() : std::string_view(it->second);
}

XtmlTag parse_xtml_tag(std::string_view text) {
  text = trim_space(text);
  XtmlTag tag;
  const std::size_t name_end = std::min(text.find_first_of(kChatSpace), text.size());
  tag.name = text.substr(0, name_end);
  text.remove_prefix(name_end);
  while (true) {
    const std::size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) return tag;
    const std::size_t value = equals + 2;
    const std::size_t end = text.find('"', value);
    if (end == std::string_view::npos) return tag;
    const std::string_view key = trim_space(text.substr(0, equals));
    tag.attributes.emplace(key, unescape(text.substr(value, end - value)));
    text.remove_prefix(end + 1);
  }
}

}  // namespace baltoro
