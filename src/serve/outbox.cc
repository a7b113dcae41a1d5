#include "serve/outbox.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "serve/http_error.h"
#include "serve/http_status.h"

namespace baltoro::serve {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, length};
}

// A control character would end the header.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

class OutboxReply final : public HttpReply {
 public:
  explicit OutboxReply(std::shared_ptr<Outbox> outbox) : outbox_(std::move(outbox)) {}
  ~OutboxReply() override { outbox_->abandon(); }

  void send(int status, HttpHeaders headers, std::string body) override {
    outbox_->send(status, headers, body);
  }
  void begin_stream(int status, HttpHeaders headers) override {
    outbox_->begin_stream(status, headers);
  }
  bool write(std::string chunk) override { return outbox_->write(chunk); }
  void end() override { outbox_->end(); }
  void on_close(std::function<void()> callback) override { outbox_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<Outbox> outbox_;
};

}  // namespace

Outbox::Outbox(AnswerForm form, std::size_t max_pending_bytes, std::function<void()> wake)
    : wake_(std::move(wake)), form_(form), max_pending_bytes_(max_pending_bytes) {}

void Outbox::send(int status, const HttpHeaders& headers, std::string_view body) {
  std::function<void()> unused;  // destroyed without the lock
  std::unique_lock lock(mutex_);
  if (state_ != State::kNew) return;
  const bool no_body = status == 204 || status == 304;
  put_head(status, headers, no_body ? "" : fmt::format("Content-Length: {}\r\n", body.size()));
  if (!form_.head_only && !no_body) waiting_ += body;
  state_ = State::kComplete;
  on_close_.swap(unused);
  const bool woken = ask_to_wake();
  lock.unlock();
  if (woken) wake();
}

void Outbox::begin_stream(int status, const HttpHeaders& headers) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kNew) return;
  if (!form_.chunked) form_.keep_alive = false;
  put_head(status, headers, form_.chunked ? "Transfer-Encoding: chunked\r\n" : "");
  state_ = State::kStreaming;
  const bool woken = ask_to_wake();
  lock.unlock();
  if (woken) wake();
}

bool Outbox::write(std::string_view chunk) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming || overflow_) return false;
  if (chunk.empty() || form_.head_only) return true;
  if (taken_bytes_ + waiting_.size() + chunk.size() > max_pending_bytes_) {
    overflow_ = true;
    awake_ = false;  // news, though the connection is at a write that it was woken for
  } else if (form_.chunked) {
    fmt::format_to(std::back_inserter(waiting_), "{:x}\r\n", chunk.size());
    waiting_.append(chunk).append("\r\n");
  } else {
    waiting_ += chunk;
  }
  const bool taken = !overflow_;
  const bool woken = ask_to_wake();
  lock.unlock();
  if (woken) wake();
  return taken;
}

void Outbox::end() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming) return;
  if (form_.chunked && !form_.head_only) waiting_ += "0\r\n\r\n";
  state_ = State::kComplete;
  on_close_.swap(unused);
  const bool woken = ask_to_wake();
  lock.unlock();
  if (woken) wake();
}

void Outbox::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete) return;
    if (state_ != State::kClosed) {
      on_close_.swap(callback);
      return;
    }
  }
  callback();
}

void Outbox::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete || state_ == State::kClosed) return;
  }
  send(500, {{"Content-Type", "application/json"}},
       error_body({.status = 500, .message = "the request was not answered"}, form_.error_shape));
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming) return;
  // Without an end, lest the client take what it has for the whole.
  form_.keep_alive = false;
  state_ = State::kComplete;
  on_close_.swap(unused);
  const bool woken = ask_to_wake();
  lock.unlock();
  if (woken) wake();
}

Outbox::Taken Outbox::take() {
  const std::lock_guard lock(mutex_);
  awake_ = false;
  Taken taken{std::exchange(waiting_, {}), state_ == State::kComplete, form_.keep_alive};
  taken_bytes_ = taken.bytes.size();
  return taken;
}

bool Outbox::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflow_;
}

void Outbox::last_request() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kNew) form_.keep_alive = false;
}

void Outbox::close() {
  {
    const std::lock_guard lock(wake_mutex_);
    wake_ = nullptr;
  }
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete || state_ == State::kClosed) return;
    state_ = State::kClosed;
    waiting_.clear();
    callback.swap(on_close_);
  }
  if (callback) callback();
}

bool Outbox::ask_to_wake() { return !std::exchange(awake_, true); }

void Outbox::wake() {
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

void Outbox::put_head(int status, const HttpHeaders& headers, const std::string& length) {
  waiting_ +=
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n{}Connection: {}\r\n", status, status_text(status),
                  http_date(), length, form_.keep_alive ? "keep-alive" : "close");
  for (const auto& [name, value] : headers.fields()) {
    waiting_ += fmt::format("{}: {}\r\n", one_line(name), one_line(value));
  }
  waiting_ += "\r\n";
}

std::shared_ptr<HttpReply> make_reply(std::shared_ptr<Outbox> outbox) {
  return std::make_shared<OutboxReply>(std::move(outbox));
}

}  // namespace baltoro::serve
