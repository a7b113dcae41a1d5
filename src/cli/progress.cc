#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cli/format.h"

namespace baltoro::cli {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kCells = 30;

std::string time_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 100) return fmt::format("{} s left", whole);
  if (whole < 6000) return fmt::format("{} min left", (whole + 30) / 60);
  return fmt::format("{} h {} min left", whole / 3600, whole % 3600 / 60);
}

std::string amount_of(ProgressUnit unit, std::uint64_t done, std::uint64_t total, double rate) {
  switch (unit) {
    case ProgressUnit::kBytes:
      return fmt::format("{} of {}  {:.2f} GB/s", human_bytes(done), human_bytes(total),
                         rate / 1e9);
    case ProgressUnit::kTokens:
      return fmt::format("{} of {} tokens  {:.0f} tokens/s", done, total, rate);
    case ProgressUnit::kPoints:
      return fmt::format("{} of {} points", done, total);
  }
  return {};
}

}  // namespace

ProgressBar::ProgressBar(std::string label, ProgressMode mode, ProgressUnit unit)
    : label_(std::move(label)),
      unit_(unit),
      enabled_(mode == ProgressMode::kAlways ||
               (mode == ProgressMode::kAuto && isatty(STDERR_FILENO) != 0)) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_ || total == 0) return;
  const Clock::time_point now = Clock::now();
  if (done < total && now - last_ < kInterval) return;
  last_ = now;
  drawn_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<std::size_t>(share * kCells);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::string amount = amount_of(unit_, done, total, rate);
  const std::string left =
      rate > 0 ? time_left(static_cast<double>(total - done) / rate) : std::string();
  fmt::print(stderr, "\r{} [{}{}] {:3.0f} %  {}  {}\x1b[K", label_, std::string(filled, '#'),
             std::string(kCells - filled, '.'), 100 * share, amount, left);
  std::fflush(stderr);
}

}  // namespace baltoro::cli
