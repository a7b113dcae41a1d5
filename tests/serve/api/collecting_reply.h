// A reply that keeps what it is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace baltoro::serve {

using Json = nlohmann::ordered_json;

class CollectingReply final : public HttpReply {
 public:
  void send(int status, HttpHeaders headers, std::string body) override {
    finish([&] {
      status_ = status;
      headers_ = std::move(headers);
      body_ = std::move(body);
    });
  }
  void begin_stream(int status, HttpHeaders headers) override {
    const std::lock_guard lock(mutex_);
    if (done_ || streaming_) return;
    streaming_ = true;
    status_ = status;
    headers_ = std::move(headers);
  }
  bool write(std::string chunk) override {
    const std::lock_guard lock(mutex_);
    if (done_ || gone_ || !streaming_) return false;
    body_ += chunk;
    changed_.notify_all();
    return true;
  }
  void end() override {
    finish([] {});
  }
  void on_close(std::function<void()> callback) override {
    std::unique_lock lock(mutex_);
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
    lock.unlock();
    callback();
  }
  void note_token(int) override { ++noted_tokens; }
  void note_usage(const HttpUsage& usage) override {
    const std::lock_guard lock(mutex_);
    noted_usage_ = usage;
  }
  HttpUsage usage() const {
    const std::lock_guard lock(mutex_);
    return noted_usage_;
  }

  // The client goes.
  void hang_up() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }

  // Waits for the end; false where it does not come.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return done_; });
  }
  // Waits until something was written.
  bool wait_for_write() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return !body_.empty(); });
  }

  bool done() const { return done_; }
  bool streamed() const { return streaming_; }
  int status() const { return status_; }
  const HttpHeaders& headers() const { return headers_; }
  const std::string& body() const { return body_; }
  Json json() const { return Json::parse(body_); }

  // The data of the events of a stream, "[DONE]" as a string, each with "event" where it has a name.
  std::vector<Json> events() const {
    std::vector<Json> out;
    std::size_t begin = 0;
    std::string name;
    while (begin < body_.size()) {
      const std::size_t end = body_.find('\n', begin);
      if (end == std::string::npos) break;
      const std::string line = body_.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with("event: ")) name = line.substr(7);
      if (!line.starts_with("data: ")) continue;
      const std::string data = line.substr(6);
      out.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
      // Anthropic's events say their name twice.
      if (!name.empty() && out.back()["type"] != name) {
        throw std::logic_error("an event " + name + " with " + data);
      }
    }
    return out;
  }

  int noted_tokens = 0;

 private:
  // A machine may be busy with other things.
  static constexpr std::chrono::seconds kPatience{120};

  void finish(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    change();
    done_ = true;
    callback_ = nullptr;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> callback_;
  bool streaming_ = false;
  bool done_ = false;
  bool gone_ = false;
  int status_ = 0;
  HttpHeaders headers_;
  std::string body_;
  HttpUsage noted_usage_;
};

}  // namespace baltoro::serve
