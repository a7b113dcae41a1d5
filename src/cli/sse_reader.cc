#include "cli/sse_reader.h"

#include <utility>

namespace baltoro::cli {

std::vector<std::string> SseReader::feed(std::string_view piece) {
  std::vector<std::string> events;
  for (const char c : piece) {
    // A line ends with a line feed, a carriage return, or both.
    const bool second_of_two = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (second_of_two) continue;
    if (c == '\n' || c == '\r') {
      take_line(std::exchange(line_, {}), events);
    } else {
      line_ += c;
    }
  }
  return events;
}

void SseReader::take_line(std::string_view line, std::vector<std::string>& events) {
  constexpr std::string_view kData = "data:";
  if (line.empty()) {
    if (data_.empty()) return;
    data_.pop_back();
    events.push_back(std::exchange(data_, {}));
  } else if (line.starts_with(kData)) {
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    data_ += line;
    data_ += '\n';
  }
}

}  // namespace baltoro::cli
