#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace baltoro {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) {
      fail(ErrorCode::kUsage,
           "a stop string is empty; leave it out or give at least one character");
    }
  }
}

std::string StopMatcher::feed(std::string_view text) {
  if (matched()) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;

  // The earliest end decides, so that the result does not depend on how the text was cut.
  std::size_t best_end = std::string::npos, best_begin = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t begin = held_.find(stops_[i]);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stops_[i].size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_end = end;
      best_begin = begin;
      match_idx_ = i;
    }
  }
  if (matched()) {
    held_.resize(best_begin);
    return std::exchange(held_, {});
  }

  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string released = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return released;
}

std::string StopMatcher::finish() { return matched() ? std::string() : std::exchange(held_, {}); }

}  // namespace baltoro
