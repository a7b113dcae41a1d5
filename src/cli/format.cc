#include "cli/format.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string with_commas(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string counted(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", with_commas(count), count == 1 ? one : many);
}

double shortest(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]);
}

std::string json_text(const ordered_json& document) { return dump(document, 2) + "\n"; }

void print_json(const ordered_json& document) { fmt::print("{}", json_text(document)); }

std::string json_line(const ordered_json& document) { return dump(document, -1); }

std::string read_text(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owner(
      is_stdin ? nullptr : std::fopen(path.c_str(), "rb"),
      [](std::FILE* f) { return std::fclose(f); });
  std::FILE* file = is_stdin ? stdin : owner.get();
  if (file == nullptr) {
    fail(ErrorCode::kIo, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file)) {
    text.append(buffer.data(), n);
  }
  if (std::ferror(file) != 0) {
    fail(ErrorCode::kIo, "{}: cannot be read: {}", path, std::strerror(errno));
  }
  return text;
}

}  // namespace baltoro::cli
