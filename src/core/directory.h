// Directories as users name them.
#pragma once

#include <filesystem>
#include <string>

namespace baltoro {

// libstdc++ 12 frees a part twice where memory runs out while a name is appended to a path that ends
// in '/'.
inline std::filesystem::path without_end_slash(const std::filesystem::path& dir) {
  std::string text = dir.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace baltoro
