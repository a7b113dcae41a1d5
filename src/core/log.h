// Messages to standard error. Standard output belongs to results.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace baltoro::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// Messages below this level are dropped; the default is kWarning.
void set_level(Level level);
void write(Level level, std::string_view message);

template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace baltoro::log
