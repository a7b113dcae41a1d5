// The server's log: a line for each request and for each event of the server's life, as text or as
// JSON.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace baltoro::serve {

enum class LogFormat { kText, kJson };

// What is known of a request when its answer is complete.
struct RequestRecord {
  std::string id;
  std::string client_address;
  std::string key_name;  // empty: none
  std::string method;
  std::string path;
  std::string body;  // empty where prompts are not to be logged
  int status = 0;
  double seconds = 0;
  double first_token_seconds = -1;  // -1: no token
  HttpUsage usage;
};

// Any thread; a line at a time.
class AccessLog {
 public:
  using Sink = std::function<void(std::string_view line)>;

  // The default sink is standard error.
  explicit AccessLog(LogFormat format, Sink sink = {});

  void request(const RequestRecord& record) const;
  // "listening", {{"url", "http://127.0.0.1:8080"}}: names and values of text or numbers.
  void event(std::string_view name, const nlohmann::ordered_json& fields) const;

 private:
  LogFormat format_;
  Sink sink_;
};

}  // namespace baltoro::serve
