#include "measure/repeat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace baltoro {
namespace {

// Of a sample beside its roof. What the host gives changes within tenths of a second.
constexpr int kSlices = 6;

Sample one_sample(const std::function<double()>& run, int runs,
                  const std::function<double()>& floor) {
  Sample sample{.seconds = 0, .runs = runs, .disturbance = std::nullopt};
  const int slices = std::min(runs, kSlices);
  double floors = floor ? floor() : 0;
  for (int slice = 0; slice < slices; ++slice) {
    const int end = static_cast<int>(std::int64_t{runs} * (slice + 1) / slices);
    for (int i = static_cast<int>(std::int64_t{runs} * slice / slices); i < end; ++i) {
      sample.seconds += run() / runs;
    }
    if (floor) floors += floor();
  }
  if (floor) sample.floor_seconds = floors / (slices + 1);
  return sample;
}

}  // namespace

bool Samples::noisy() const {
  return std::ranges::any_of(kept, [](const Sample& sample) { return sample.disturbed(); });
}

Summary Samples::seconds() const {
  std::vector<double> values;
  for (const Sample& sample : kept) values.push_back(sample.seconds);
  return summarize(std::move(values));
}

bool Samples::have_floors() const {
  return !kept.empty() && std::ranges::all_of(kept, [](const Sample& sample) {
    return sample.floor_seconds.has_value();
  });
}

Summary Samples::floors() const {
  std::vector<double> values;
  for (const Sample& sample : kept) values.push_back(sample.floor_seconds.value());
  return summarize(std::move(values));
}

Summary Samples::shares() const {
  std::vector<double> values;
  for (const Sample& sample : kept) {
    values.push_back(sample.floor_seconds.value() / sample.seconds);
  }
  return summarize(std::move(values));
}

Samples repeat(const std::function<double()>& run, const RepeatOptions& options,
               const std::function<std::optional<CpuTimes>()>& cpu_times,
               const std::function<double()>& floor) {
  const double warm = run();
  const int runs = static_cast<int>(
      std::clamp(std::ceil(options.sample_seconds / std::max(warm, 1e-9)), 1.0, 1e6));
  Samples samples;
  while (static_cast<int>(samples.kept.size()) < options.repeats) {
    const std::optional<CpuTimes> before = cpu_times();
    Sample sample = one_sample(run, runs, floor);
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
