// What the server and its handlers say to each other, without a socket: the listener makes requests
// and replies, src/serve/api answers them, and tests do without the one or the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baltoro::serve {

// In the order of the message; a name may come more than once.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}

  void add(std::string name, std::string value);
  // The first value of a name, in any case of its letters; nullptr where there is none. Valid until
  // the next add().
  const std::string* find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }
  // Equal but for the case of ASCII letters.
  static bool same_name(std::string_view a, std::string_view b);

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // as sent: "GET", "POST", ...
  std::string path;    // the target up to '?', as sent: not decoded
  std::string query;   // behind '?', as sent
  HttpHeaders headers;
  std::string body;            // whole; bytes of any kind
  std::string client_address;  // "127.0.0.1"
  std::string id;  // the client's x-request-id where it is sane, else made here; for logs
  // By which key the request was let in, "key-1"; empty where none is needed. Never the key.
  std::string key_name;
};

// Numbers for the log line of a request; -1 is unknown.
struct HttpUsage {
  std::int64_t prompt_tokens = -1;
  std::int64_t reused_tokens = -1;
  std::int64_t completion_tokens = -1;
};

// The answer to one request: send(), or begin_stream(), write() any number of times, and end().
// Thread-safe, and may outlive the call of the handler and the connection: after the client is gone
// all of it does nothing. What comes after send() or end() is ignored; a reply that is dropped
// before either is answered with 500, or cut off where it has begun.
class HttpReply {
 public:
  virtual ~HttpReply() = default;

  // The whole answer. Content-Length, Date and the headers of the server are added.
  virtual void send(int status, HttpHeaders headers, std::string body) = 0;
  // An answer of unknown length, chunked.
  virtual void begin_stream(int status, HttpHeaders headers) = 0;
  // False where the client is gone, or so slow that what waits for it would pass the server's
  // limit; it is then cut off. Returns at once: never waits for the client.
  virtual bool write(std::string chunk) = 0;
  virtual void end() = 0;
  // `callback` is called once, from any thread, when the client goes before the answer was
  // complete; at once where it has gone already; never after that. Must not block. One at most; a
  // later one replaces it.
  virtual void on_close(std::function<void()> callback) = 0;
  // For log and metrics. note_token: a token of a choice was made, now; note_usage: before send()
  // or end().
  virtual void note_token(int /*choice*/) {}
  virtual void note_usage(const HttpUsage& /*usage*/) {}
};

// Called on one of a few worker threads, several at once. Reading the request may take its time;
// waiting for the model may not: answer later, from another thread. An exception that leaves it is
// answered with 500.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

}  // namespace baltoro::serve
