// Repeats of one measurement, without those that something else disturbed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "measure/disturbance.h"
#include "measure/statistics.h"

namespace baltoro {

struct RepeatOptions {
  int repeats = 5;  // samples wanted
  // The measurement is given up when more samples than this were disturbed.
  int max_dropped = 15;
  bool allow_noise = false;  // keep disturbed samples, marked
  // A sample runs the body until this has passed, so that ticks can tell who used the processors.
  double sample_seconds = 0.5;
};

struct Sample {
  double seconds = 0;  // of one run, the mean over the runs of the sample
  int runs = 0;
  std::optional<Disturbance> disturbance;  // absent where the system cannot tell

  bool disturbed() const { return disturbance && disturbance->too_large(); }
};

struct Samples {
  std::vector<Sample> kept;
  std::vector<Sample> dropped;
  bool gave_up = false;  // too many were dropped: no result

  bool noisy() const;       // a kept sample was disturbed
  Summary seconds() const;  // of one run, over the kept samples; not for a measurement given up
};

// `run` does the work once and returns the seconds that count, without its own preparation. It is
// called once to warm up, then for each sample as often as sample_seconds asks.
Samples repeat(const std::function<double()>& run, const RepeatOptions& options,
               const std::function<std::optional<CpuTimes>()>& cpu_times = read_cpu_times);

}  // namespace baltoro
