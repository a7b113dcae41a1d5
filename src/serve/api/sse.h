// Server-sent events.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"

namespace baltoro::serve {

// `data` is one line.
inline std::string sse_data(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

inline std::string sse_event(std::string_view name, std::string_view data) {
  std::string event = "event: ";
  event += name;
  event += '\n';
  event += sse_data(data);
  return event;
}

// Proxies must neither keep nor collect the events.
inline HttpHeaders sse_headers() {
  return {{"Content-Type", "text/event-stream; charset=utf-8"},
          {"Cache-Control", "no-cache"},
          {"X-Accel-Buffering", "no"}};
}

}  // namespace baltoro::serve
