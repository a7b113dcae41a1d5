// The inside of an XTML marker: a tag and its attributes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace baltoro {

struct XtmlTag {
  std::string name;
  std::map<std::string, std::string, std::less<>> attributes;

  // The attribute's value, "" if there is none.
  std::string_view attribute(std::string_view key) const;
};

// Reads `tag key="value" ...`; values are unescaped. What does not fit ends the attributes.
XtmlTag parse_xtml_tag(std::string_view text);

}  // namespace baltoro
