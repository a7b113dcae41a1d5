// Finds stop strings in text that arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// One thread at a time.
class StopMatcher {
 public:
  // Throws Error{kUsage} for an empty string.
  explicit StopMatcher(std::vector<std::string> stops);

  // Adds text and returns what can no longer be part of a stop string. Once a stop string is
  // complete the text before it is returned, matched() is true and further text is dropped. Of
  // several, the one that is complete first wins, then the one that begins first.
  std::string feed(std::string_view text);
  // What was held back, at the end of the text.
  std::string finish();
  bool matched() const noexcept { return match_idx_.has_value(); }
  // The stop string that was found, or nullptr. Valid until the matcher is changed.
  const std::string* match() const noexcept { return match_idx_ ? &stops_[*match_idx_] : nullptr; }

 private:
  std::vector<std::string> stops_;
  std::string held_;  // a proper prefix of some stop string
  std::optional<std::size_t> match_idx_;
};

}  // namespace baltoro
