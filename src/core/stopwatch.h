// Wall time between two points of one thread.
#pragma once

#include <chrono>

namespace baltoro {

// Seconds since the last lap, or since construction.
class Stopwatch {
 public:
  double lap() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> seconds = now - last_;
    last_ = now;
    return seconds.count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace baltoro
