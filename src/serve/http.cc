#include "serve/http.h"

#include <algorithm>

namespace baltoro::serve {
namespace {

// Of ASCII letters alone, whatever the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool HttpHeaders::same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

void HttpHeaders::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

const std::string* HttpHeaders::find(std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (same_name(field, name)) return &value;
  }
  return nullptr;
}

}  // namespace baltoro::serve
