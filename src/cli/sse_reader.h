// Server-sent events, out of the pieces in which a stream arrives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baltoro::cli {

// One thread at a time.
class SseReader {
 public:
  // The data of the events that `piece` completes. Other fields, and comments, are left out.
  std::vector<std::string> feed(std::string_view piece);

 private:
  void take_line(std::string_view line, std::vector<std::string>& events);

  std::string line_;  // not at its end yet
  std::string data_;  // of the event so far, with a line feed behind each of its lines
  bool after_return_ = false;
};

}  // namespace baltoro::cli
