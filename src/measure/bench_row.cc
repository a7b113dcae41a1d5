#include "measure/bench_row.h"

#include <fmt/format.h>

#include <algorithm>

namespace baltoro {

void BenchRow::time(const std::function<double()>& run, const RepeatOptions& options,
                    const std::function<double()>& floor_now) {
  samples = repeat(run, options, read_cpu_times, floor_now);
  if (samples.have_floors()) floor.seconds = samples.floors().median;
}

std::string describe_dropped(const Samples& samples) {
  if (samples.dropped.empty()) return {};
  Disturbance worst;
  for (const Sample& sample : samples.dropped) {
    worst.other_cores = std::max(worst.other_cores, sample.disturbance->other_cores);
    worst.steal = std::max(worst.steal, sample.disturbance->steal);
  }
  return fmt::format(
      "dropped {} of {} samples: other processes used up to {:.2f} core (limit {:.2f}), steal up "
      "to "
      "{:.1f} % (limit {:.0f} %)",
      samples.dropped.size(), samples.dropped.size() + samples.kept.size(), worst.other_cores,
      kMaxOtherCores, 100 * worst.steal, 100 * kMaxSteal);
}

}  // namespace baltoro
