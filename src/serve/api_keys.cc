#include "serve/api_keys.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace baltoro::serve {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// All bytes are looked at, equal or not. Volatile, so that the compiler cannot stop at the first
// difference.
bool equal(const std::array<char, ApiKeys::kMaxBytes>& padded, std::size_t size,
           const std::string& key) {
  volatile unsigned difference = static_cast<unsigned>(size ^ key.size());
  for (std::size_t i = 0; i < ApiKeys::kMaxBytes; ++i) {
    const char byte = i < key.size() ? key[i] : '\0';
    difference = difference | static_cast<unsigned char>(padded[i] ^ byte);
  }
  return difference == 0;
}

}  // namespace

void ApiKeys::add(std::string key, std::string_view where) {
  if (key.empty() || key.size() > kMaxBytes) {
    fail(ErrorCode::kUsage, "{}: a key has {} bytes; it must have 1 to {}", where, key.size(),
         kMaxBytes);
  }
  if (!std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
    fail(ErrorCode::kUsage,
         "{}: a key may have letters, digits and signs of ASCII alone, no blanks", where);
  }
  keys_.push_back(std::move(key));
}

void ApiKeys::add_lines(std::string_view text, std::string_view where) {
  const std::size_t before = keys_.size();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line[0] != '#') add(std::string(line), where);
  }
  if (keys_.size() == before) fail(ErrorCode::kUsage, "{} has no key; give one a line", where);
}

std::optional<std::size_t> ApiKeys::match(std::string_view candidate) const {
  if (candidate.size() > kMaxBytes) return std::nullopt;
  std::array<char, kMaxBytes> padded{};
  std::copy(candidate.begin(), candidate.end(), padded.begin());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (equal(padded, candidate.size(), keys_[i])) found = i;
  }
  return found;
}

std::optional<std::string_view> presented_key(const HttpHeaders& headers) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string* authorization = headers.find("authorization");
  if (authorization != nullptr && authorization->size() >= kScheme.size()) {
    const std::string_view value = *authorization;
    if (HttpHeaders::same_name(value.substr(0, kScheme.size()), kScheme)) {
      return trim(value.substr(kScheme.size()));
    }
  }
  const std::string* key = headers.find("x-api-key");
  return key == nullptr ? std::nullopt : std::optional(trim(*key));
}

}  // namespace baltoro::serve
