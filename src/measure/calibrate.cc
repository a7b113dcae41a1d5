#include "measure/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/make_backend.h"
#include "measure/machine.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the clock.
constexpr double kBurstSeconds = 1e-3;
// Until a measurement begins and ends in one state of the machine.
constexpr int kAttempts = 5;

}  // namespace

std::unique_ptr<Backend> calibration_backend(const EngineOptions& options) {
  return make_backend(options);
}

plan::CalibrationKey calibration_key(const Backend& backend) {
  const MachineInfo machine = describe_machine();
  return {.machine = machine.cpu,
          .backend = std::string(backend.name()),
          .threads = backend.num_threads(),
          .activations = backend.activations() == Activations::kBf16 ? "bf16" : "f32",
          .build = fmt::format("{} {} {}", machine.version, machine.commit, machine.compiler)};
}

std::vector<std::string> calibration_groups() {
  std::vector<std::string> groups;
  for (const OpPoint& point : op_points()) {
    if (groups.empty() || groups.back() != point.group) groups.push_back(point.group);
  }
  return groups;
}

TimedPoint PointTimer::time_once(const OpPoint& point, const RepeatOptions& options) {
  memory_.set_working_set(point.working_set);
  const PointCall call = point.prepare(memory_);
  plan::KernelCall kernel;
  const auto burst = [&](int calls, bool with_op) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      memory_.renew_activations();
      if (with_op) kernel = call();
    }
    memory_.backend().synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  burst(1, true);
  constexpr int kTrial = 3;
  const double once = burst(kTrial, true) / kTrial;
  const int calls = static_cast<int>(std::clamp(kBurstSeconds / once, 1.0, 1000.0));
  TimedPoint timed;
  timed.samples = repeat([&] { return burst(calls, true) - burst(calls, false); }, options);
  const double seconds = timed.samples.gave_up ? 0 : timed.samples.seconds().median / calls;
  timed.point = {point.group,
                 kernel.kernel,
                 {.name = point.name,
                  .work = kernel.work,
                  .working_set = static_cast<double>(point.working_set),
                  .machine = {},
                  .seconds = std::max(0.0, seconds)}};
  return timed;
}

TimedPoint PointTimer::time(const OpPoint& point, const RepeatOptions& options) {
  TimedPoint timed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto set = static_cast<double>(point.working_set);
    const plan::MachineState before = probe_.state(set);
    TimedPoint now = time_once(point, options);
    const plan::MachineState after = probe_.state(set);
    now.moved = timed.moved;
    now.point.sample.machine = mean({before, after});
    timed = std::move(now);
    if (!states_differ(before, after)) break;
    ++timed.moved;
    timed.point.sample.seconds = 0;
  }
  return timed;
}

}  // namespace baltoro
