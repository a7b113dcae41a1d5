// A reply that keeps what it is told.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "serve/http.h"

namespace baltoro::serve {

class RecordedReply final : public HttpReply {
 public:
  void send(int new_status, HttpHeaders new_headers, std::string text) override {
    begin_stream(new_status, std::move(new_headers));
    body = std::move(text);
    complete = true;
  }
  void begin_stream(int new_status, HttpHeaders new_headers) override {
    status = new_status;
    headers = std::move(new_headers);
  }
  bool write(std::string chunk) override {
    body += chunk;
    return !closed;
  }
  void end() override { complete = true; }
  void on_close(std::function<void()> callback) override { close_callback = std::move(callback); }

  void close() {
    closed = true;
    if (close_callback) std::exchange(close_callback, nullptr)();
  }
  std::string header(std::string_view name) const {
    const std::string* value = headers.find(name);
    return value == nullptr ? std::string() : *value;
  }

  int status = 0;
  HttpHeaders headers;
  std::string body;
  bool complete = false;
  bool closed = false;
  std::function<void()> close_callback;
};

}  // namespace baltoro::serve
