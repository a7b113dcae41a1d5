#include "measure/repeat.h"

#include <algorithm>
#include <cmath>

namespace baltoro {

bool Samples::noisy() const {
  return std::ranges::any_of(kept, [](const Sample& sample) { return sample.disturbed(); });
}

Summary Samples::seconds() const {
  std::vector<double> values;
  for (const Sample& sample : kept) values.push_back(sample.seconds);
  return summarize(std::move(values));
}

Samples repeat(const std::function<double()>& run, const RepeatOptions& options,
               const std::function<std::optional<CpuTimes>()>& cpu_times) {
  const double warm = run();
  const int runs = static_cast<int>(
      std::clamp(std::ceil(options.sample_seconds / std::max(warm, 1e-9)), 1.0, 1e6));
  Samples samples;
  while (static_cast<int>(samples.kept.size()) < options.repeats) {
    Sample sample{.seconds = 0, .runs = runs, .disturbance = std::nullopt};
    const std::optional<CpuTimes> before = cpu_times();
    for (int i = 0; i < runs; ++i) sample.seconds += run() / runs;
    const std::optional<CpuTimes> after = cpu_times();
    if (before && after) sample.disturbance = disturbance_between(*before, *after);
    if (!sample.disturbed() || options.allow_noise) {
      samples.kept.push_back(sample);
      continue;
    }
    samples.dropped.push_back(sample);
    if (static_cast<int>(samples.dropped.size()) > options.max_dropped) {
      samples.gave_up = true;
      return samples;
    }
  }
  return samples;
}

}  // namespace baltoro
