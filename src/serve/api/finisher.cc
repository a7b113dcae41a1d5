#include "serve/api/finisher.h"

#include <exception>
#include <utility>

#include "core/log.h"

namespace baltoro::serve {

Finisher::Finisher() : thread_([this] { run(); }) {}

void Finisher::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Finisher::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Finisher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    try {
      task();
    } catch (const std::exception& error) {
      log::write(log::Level::kError, fmt::format("the end of an answer failed: {}", error.what()));
    }
    task = nullptr;
    lock.lock();
  }
}

}  // namespace baltoro::serve
