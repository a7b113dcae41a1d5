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
  // Of one run by the roof that was measured between the runs; absent where none was.
  std::optional<double> floor_seconds = std::nullopt;

  bool disturbed() const { return disturbance && disturbance->too_large(); }
};

struct Samples {
  std::vector<Sample> kept;
  std::vector<Sample> dropped;
  bool gave_up = false;  // too many were dropped: no result

  bool noisy() const;        // a kept sample was disturbed
  Summary seconds() const;   // of one run, over the kept samples; not for a measurement given up
  bool have_floors() const;  // all kept samples, and there are some
  Summary floors() const;    // floor_seconds; where have_floors()
  Summary shares() const;    // floor_seconds over seconds, sample by sample; where have_floors()
};

// `run` does the work once and returns the seconds that count, without its own preparation. It is
// called once to warm up, then for each sample as often as sample_seconds asks. `floor`, where there
// is one, is called before, between and after the runs of a sample, which are cut in a few slices: the
// sample's floor is the mean of what it returns.
Samples repeat(const std::function<double()>& run, const RepeatOptions& options,
               const std::function<std::optional<CpuTimes>()>& cpu_times = read_cpu_times,
               const std::function<double()>& floor = {});

}  // namespace baltoro
