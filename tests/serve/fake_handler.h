// A handler whose answers tests give themselves, and a server around it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "serve/http_server.h"

namespace baltoro::serve {

struct Call {
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
};

// GET /echo answers at once with what was asked, /throw throws, /drop forgets the reply; all else
// waits for next().
class FakeHandler {
 public:
  void operator()(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    if (request.path == "/echo") {
      std::string text = request.method + " " + request.query + " " + request.body;
      reply->send(200, {{"Content-Type", "text/plain"}}, std::move(text));
      return;
    }
    if (request.path == "/throw") throw std::runtime_error("secret");
    if (request.path == "/drop") return;
    const std::lock_guard lock(mutex_);
    calls_.push_back({std::move(request), std::move(reply)});
    arrived_.notify_all();
  }

  // The next call that waits. Throws std::runtime_error where none comes.
  Call next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(20), [this] { return !calls_.empty(); })) {
      throw std::runtime_error("no request has come");
    }
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Call> calls_;
};

struct TestServer {
  explicit TestServer(HttpServerOptions options = {}, HttpServerHooks hooks = {})
      : server(with_free_port(std::move(options)), with_handler(std::move(hooks))) {}

  HttpServerOptions with_free_port(HttpServerOptions options) {
    options.port = 0;
    return options;
  }
  HttpServerHooks with_handler(HttpServerHooks hooks) {
    hooks.handler = [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
      handler(std::move(request), std::move(reply));
    };
    return hooks;
  }
  std::uint16_t port() const { return server.port(); }

  FakeHandler handler;
  HttpServer server;
};

// Set once, waited for.
class Event {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

}  // namespace baltoro::serve
