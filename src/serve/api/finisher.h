// A thread for what comes after an answer's last token, so that the scheduler's need not wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baltoro::serve {

// Any thread may post; tasks run in order.
class Finisher {
 public:
  Finisher();
  ~Finisher() { close(); }
  Finisher(const Finisher&) = delete;
  Finisher& operator=(const Finisher&) = delete;

  // After close() the task is dropped.
  void post(std::function<void()> task);
  // Runs what was posted and ends the thread.
  void close();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace baltoro::serve
