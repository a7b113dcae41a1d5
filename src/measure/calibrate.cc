#include "measure/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "measure/machine.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the clock.
constexpr double kBurstSeconds = 1e-3;

}  // namespace

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

void time_points(Backend& backend, const std::vector<OpPoint>& points, const RepeatOptions& options,
                 const std::function<void(const TimedPoint&)>& on_point) {
  RotatingMemory memory(backend);
  for (const OpPoint& point : points) {
    memory.set_working_set(point.working_set);
    const OpCall call = point.prepare(memory);
    plan::KernelCall kernel;
    const auto burst = [&](int calls) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < calls; ++i) kernel = call();
      backend.synchronize();
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    burst(1);
    constexpr int kTrial = 3;
    const double once = burst(kTrial) / kTrial;
    const int calls = static_cast<int>(std::clamp(kBurstSeconds / once, 1.0, 1000.0));
    TimedPoint timed;
    timed.samples = repeat([&] { return burst(calls); }, options);
    const double seconds = timed.measured() ? timed.samples.seconds().median / calls : 0;
    timed.point = {point.group,
                   kernel.kernel,
                   {point.name, kernel.work, static_cast<double>(point.working_set), seconds}};
    on_point(timed);
  }
}

}  // namespace baltoro
