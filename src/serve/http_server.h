// The HTTP/1.1 server: one thread for all connections, a few for the handlers. Parsing and sockets
// are Boost.Beast's; limits, deadlines and the end of things are here and in http_connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http.h"
#include "serve/http_error.h"

namespace baltoro::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address of this machine, or "localhost"
  std::uint16_t port = 8080;       // 0: any that is free
  // Beyond it, requests are answered with 503 and the connection is closed.
  std::size_t max_connections = 2048;
  std::size_t max_header_bytes = std::size_t{16} << 10;  // 431
  std::size_t max_body_bytes = std::size_t{8} << 20;     // 413
  // Of all requests that are being read or wait for a handler: 503.
  std::size_t max_total_body_bytes = std::size_t{256} << 20;
  // Of a stream, waiting for a slow client beside what the system holds for it: the client is cut
  // off.
  std::size_t max_pending_bytes = std::size_t{1} << 20;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request: 408
  std::chrono::milliseconds body_timeout{60'000};    // from the end of the header: 408
  std::chrono::milliseconds idle_timeout{75'000};    // between requests: closed
  std::chrono::milliseconds write_timeout{30'000};   // the client takes nothing: cut off
  int num_workers = 2;
};

struct HttpServerHooks {
  HttpHandler handler = {};
  // Called with the header of a request before its body is read, on the thread of the connections:
  // must be quick. It may
  // fill in the key's name. An error is the answer, and the connection is closed. May be empty.
  std::function<std::optional<HttpError>(HttpRequest&)> admit = {};
  // A request was answered here without the handler. May be empty.
  std::function<void(int status, const HttpRequest&)> refused = {};
};

class HttpServer {
 public:
  // Listens, and answers from now on. Throws Error{kUsage} for a bad address, Error{kIo} for one
  // that cannot be had.
  HttpServer(const HttpServerOptions& options, HttpServerHooks hooks);
  // Closes all connections; waits for handlers that run.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080"
  std::size_t num_connections() const;

  // Accepts no more connections; each closes after the request that it is at. May be called again.
  void drain();
  // True when no connection is left; waits for that as long as it may.
  bool wait_drained(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baltoro::serve
