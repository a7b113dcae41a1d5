#include "serve/tracked_reply.h"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

namespace baltoro::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kClientGone = 499;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Outlives the reply: the connection holds it for the news that the client is gone.
class Track {
 public:
  Track(RequestRecord record, RequestWatch watch)
      : record_(std::move(record)), watch_(std::move(watch)) {}

  void status(int status) {
    const std::lock_guard lock(mutex_);
    if (record_.status == 0 && !is_closed_) record_.status = status;
  }

  void usage(const HttpUsage& usage) {
    const std::lock_guard lock(mutex_);
    record_.usage = usage;
  }

  void token(int choice) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto index = static_cast<std::size_t>(choice);
    if (last_token_.size() <= index) last_token_.resize(index + 1);
    if (record_.first_token_seconds < 0) {
      record_.first_token_seconds = seconds_since(start_);
      watch_.first_token(record_.first_token_seconds);
    }
    if (last_token_[index] != Clock::time_point{}) {
      watch_.between_tokens(std::chrono::duration<double>(now - last_token_[index]).count());
    }
    last_token_[index] = now;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    finish();
  }

  void dropped() {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) record_.status = 500;
    finish();
  }

  void closed() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      // The record is written when the handler lets go: only then is known what the request took.
      if (!is_done_) record_.status = kClientGone;
      is_closed_ = true;
      callback.swap(on_close_);
    }
    if (callback) callback();
  }

  void on_close(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_closed_) {
        if (!is_done_) on_close_.swap(callback);
        return;
      }
    }
    callback();
  }

 private:
  void finish() {
    if (is_done_) return;
    is_done_ = true;
    record_.seconds = seconds_since(start_);
    watch_.done(record_);
  }

  std::mutex mutex_;
  RequestRecord record_;
  RequestWatch watch_;
  Clock::time_point start_ = Clock::now();
  std::vector<Clock::time_point> last_token_;  // by choice
  std::function<void()> on_close_;
  bool is_done_ = false;
  bool is_closed_ = false;
};

class TrackedReply final : public HttpReply {
 public:
  TrackedReply(std::shared_ptr<HttpReply> reply, HttpHeaders headers, std::shared_ptr<Track> track)
      : reply_(std::move(reply)), headers_(std::move(headers)), track_(std::move(track)) {
    reply_->on_close([track = track_] { track->closed(); });
  }
  ~TrackedReply() override { track_->dropped(); }

  void send(int status, HttpHeaders headers, std::string body) override {
    track_->status(status);
    // Before the answer leaves: who has read it may ask for the metrics.
    track_->end();
    reply_->send(status, merged(headers), std::move(body));
  }
  void begin_stream(int status, HttpHeaders headers) override {
    track_->status(status);
    reply_->begin_stream(status, merged(headers));
  }
  bool write(std::string chunk) override { return reply_->write(std::move(chunk)); }
  void end() override {
    track_->end();
    reply_->end();
  }
  void on_close(std::function<void()> callback) override { track_->on_close(std::move(callback)); }
  void note_token(int choice) override { track_->token(choice); }
  void note_usage(const HttpUsage& usage) override { track_->usage(usage); }

 private:
  // A header of the answer stands in place of one that all answers have.
  HttpHeaders merged(const HttpHeaders& own) const {
    HttpHeaders all;
    for (const auto& [name, value] : headers_.fields()) {
      if (own.find(name) == nullptr) all.add(name, value);
    }
    for (const auto& [name, value] : own.fields()) all.add(name, value);
    return all;
  }

  std::shared_ptr<HttpReply> reply_;
  HttpHeaders headers_;
  std::shared_ptr<Track> track_;
};

}  // namespace

std::shared_ptr<HttpReply> track(std::shared_ptr<HttpReply> reply, RequestRecord record,
                                 HttpHeaders headers, RequestWatch watch) {
  auto shared = std::make_shared<Track>(std::move(record), std::move(watch));
  return std::make_shared<TrackedReply>(std::move(reply), std::move(headers), std::move(shared));
}

}  // namespace baltoro::serve
