#include "measure/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/make_backend.h"
#include "measure/machine.h"
#include "measure/state_probe.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the clock.
constexpr double kBurstSeconds = 1e-3;
// Until a measurement begins and ends in one state of the machine.
constexpr int kAttempts = 5;

TimedPoint time_point(RotatingMemory& memory, const OpPoint& point, const RepeatOptions& options) {
  memory.set_working_set(point.working_set);
  const PointCall call = point.prepare(memory);
  plan::KernelCall kernel;
  const auto burst = [&](int calls) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) kernel = call();
    memory.backend().synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  burst(1);
  constexpr int kTrial = 3;
  const double once = burst(kTrial) / kTrial;
  const int calls = static_cast<int>(std::clamp(kBurstSeconds / once, 1.0, 1000.0));
  TimedPoint timed;
  timed.samples = repeat([&] { return burst(calls); }, options);
  const double seconds = timed.samples.gave_up ? 0 : timed.samples.seconds().median / calls;
  timed.point = {point.group,
                 kernel.kernel,
                 {.name = point.name,
                  .work = kernel.work,
                  .working_set = static_cast<double>(point.working_set),
                  .seconds = seconds}};
  return timed;
}

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

bool differ(double a, double b) {
  constexpr double kMax = 1.2;
  return a > kMax * b || b > kMax * a;
}

void time_points(Backend& backend, const std::vector<OpPoint>& points, const RepeatOptions& options,
                 const std::function<void(const TimedPoint&)>& on_point) {
  StateProbe probe(backend);
  RotatingMemory memory(backend);
  for (const OpPoint& point : points) {
    TimedPoint timed;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double flops = probe.flops_per_second(), dispatch = probe.dispatch_seconds();
      TimedPoint now = time_point(memory, point, options);
      const double flops_after = probe.flops_per_second(),
                   dispatch_after = probe.dispatch_seconds();
      now.moved = timed.moved;
      now.point.sample.flops_per_second = (flops + flops_after) / 2;
      now.point.sample.dispatch_seconds = (dispatch + dispatch_after) / 2;
      timed = std::move(now);
      if (!differ(flops, flops_after) && !differ(dispatch, dispatch_after)) break;
      ++timed.moved;
      timed.point.sample.seconds = 0;
    }
    on_point(timed);
  }
}

}  // namespace baltoro
