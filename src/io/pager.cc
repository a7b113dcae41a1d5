#include "io/pager.h"

#include <utility>

namespace baltoro {

Pager::Pager() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

Pager::~Pager() = default;

Pager::Ticket Pager::move(std::vector<FileRange> drops, std::vector<FileRange> reads) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(drops), std::move(reads), false});
  changed_.notify_all();
  return ++asked_;
}

void Pager::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket || error_ != nullptr; });
  if (error_ != nullptr) std::rethrow_exception(error_);
}

std::uint64_t Pager::bytes_read() const {
  const std::lock_guard lock(mutex_);
  return bytes_read_;
}

void Pager::start(Move& move) {
  if (std::exchange(move.started, true)) return;
  for (const FileRange& range : move.drops) drop_pages(range);
  for (const FileRange& range : move.reads) start_reading(range);
}

void Pager::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto asked = [&] { return !queue_.empty(); };
  while (changed_.wait(lock, stop, asked) && !stop.stop_requested()) {
    // References into a deque stay valid while others push.
    Move& move = queue_.front();
    Move* const next = queue_.size() > 1 ? &queue_[1] : nullptr;
    lock.unlock();
    start(move);
    // The disk has something to do while the last pages of this move arrive.
    if (next != nullptr) start(*next);
    std::uint64_t bytes = 0;
    std::exception_ptr error;
    try {
      for (const FileRange& range : move.reads) {
        finish_reading(range);
        bytes += range.bytes;
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    queue_.pop_front();
    bytes_read_ += bytes;
    ++done_;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

}  // namespace baltoro
