#include "measure/disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace baltoro {
namespace {

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

}  // namespace

std::optional<CpuTimes> parse_proc_stat(std::string_view text, double ticks_per_second) {
  std::istringstream lines{std::string(text)};
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user and nice.
  std::string name;
  std::array<double, 8> ticks{};
  if (!(lines >> name) || name != "cpu") return std::nullopt;
  for (double& count : ticks) {
    if (!(lines >> count)) return std::nullopt;
  }
  CpuTimes times;
  const auto [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
  times.busy = (user + nice + system + irq + softirq) / ticks_per_second;
  times.steal = steal / ticks_per_second;
  std::string line;
  while (std::getline(lines, line)) times.processors += line.starts_with("cpu");
  return times;
}

std::optional<CpuTimes> read_cpu_times() {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  text << file.rdbuf();
  auto times = parse_proc_stat(text.str(), static_cast<double>(sysconf(_SC_CLK_TCK)));
  if (!times) return std::nullopt;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  times->own = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  times->wall = std::chrono::duration<double>(now).count();
  return times;
}

Disturbance disturbance_between(const CpuTimes& before, const CpuTimes& after) {
  const double wall = after.wall - before.wall;
  if (wall <= 0) return {};
  const double others = (after.busy - before.busy) - (after.own - before.own);
  return {.other_cores = std::max(0.0, others / wall),
          .steal = (after.steal - before.steal) / (wall * std::max(1, after.processors))};
}

}  // namespace baltoro
