// The keys that let clients in.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace baltoro::serve {

class ApiKeys {
 public:
  static constexpr std::size_t kMaxBytes = 256;

  // Throws Error{kUsage} for a key that no header could hold; `where` names its origin, never the
  // key itself.
  void add(std::string key, std::string_view where);
  // One key a line; blank lines and lines that begin with # are skipped. Throws Error{kUsage} where
  // there is none.
  void add_lines(std::string_view text, std::string_view where);

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  // For a client, which presents it. There must be one.
  const std::string& first() const { return keys_.front(); }
  // The number of the key, from 0 in the order of add(). Takes the same time for any candidate of
  // up to kMaxBytes, whatever the keys are and however much of one it has right.
  std::optional<std::size_t> match(std::string_view candidate) const;

 private:
  std::vector<std::string> keys_;
};

// What a request presents: `Authorization: Bearer KEY`, else `x-api-key: KEY`. Nothing where it has
// neither.
std::optional<std::string_view> presented_key(const HttpHeaders& headers);

}  // namespace baltoro::serve
