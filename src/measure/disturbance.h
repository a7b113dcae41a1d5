// How much of the machine others used while something was measured: other processes, and other
// virtual machines on the same processors (steal).
#pragma once

#include <optional>
#include <string_view>

namespace baltoro {

// Counters at one moment, in seconds; their differences mean something.
struct CpuTimes {
  double wall = 0;
  double busy = 0;   // of all processors, all processes
  double steal = 0;  // of all processors
  double own = 0;    // of this process
  int processors = 0;
};

// The counters of now. Nothing where the system has no /proc/stat.
std::optional<CpuTimes> read_cpu_times();

// Busy and steal seconds and the number of processors from the text of /proc/stat, in units of a
// `ticks_per_second`th. Nothing where its first line is not the one of all processors.
std::optional<CpuTimes> parse_proc_stat(std::string_view text, double ticks_per_second);

// Beyond these a measurement is of no use.
constexpr double kMaxOtherCores = 0.06;
constexpr double kMaxSteal = 0.02;

struct Disturbance {
  double other_cores = 0;  // processors that other processes kept busy
  double steal = 0;        // share of the machine's processor time

  bool too_large() const { return other_cores > kMaxOtherCores || steal > kMaxSteal; }
};

// What happened between two readings. The kernel counts in ticks of 10 ms, so half a second between
// them makes an error of a few hundredths of a core.
Disturbance disturbance_between(const CpuTimes& before, const CpuTimes& after);

}  // namespace baltoro
