// A progress bar on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace baltoro::cli {

enum class ProgressMode { kAuto, kAlways };  // kAuto: on a terminal
enum class ProgressUnit { kBytes, kTokens, kPoints };

class ProgressBar {
 public:
  ProgressBar(std::string label, ProgressMode mode, ProgressUnit unit = ProgressUnit::kBytes);
  // Removes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second, and at the end.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  ProgressUnit unit_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace baltoro::cli
