#include "measure/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "engine/make_backend.h"
#include "measure/machine.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the clock.
constexpr double kBurstSeconds = 1e-3;
// Until a measurement begins and ends in one state of the machine.
constexpr int kAttempts = 5;

// A batch of another form and the same origin: a device must not take passes of the one for passes
// of the other.
class OtherBatch {
 public:
  explicit OtherBatch(const BatchView& batch)
      : tokens_(batch.token_ids.size() + 1, 0), rows_(tokens_.size()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i] = {.first_row = static_cast<std::int64_t>(i),
                  .num_rows = 1,
                  .origin = batch.sequences.front().origin,
                  .pages = {}};
    }
  }
  BatchView view() const { return {tokens_, rows_}; }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<SequenceRows> rows_;
};

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
  for (const OpPoint& point : op_points(*make_reference_backend(Activations::kF32))) {
    if (groups.empty() || groups.back() != point.group) groups.push_back(point.group);
  }
  return groups;
}

TimedPoint PointTimer::time_once(const OpPoint& point, const RepeatOptions& options) {
  memory_.set_working_set(point.working_set);
  const PointCall call = point.prepare(memory_);
  const OtherBatch other(memory_.batch());
  Backend& backend = memory_.backend();
  const bool on_device = !backend.uses_host_memory();
  plan::KernelCall kernel;
  const auto ops = [&](int calls, bool with_op) {
    for (int i = 0; i < calls; ++i) {
      memory_.renew_activations();
      if (with_op) kernel = call();
    }
  };
  const auto burst = [&](int calls, bool with_op) {
    const std::function<void()> body = [&] { ops(calls, with_op); };
    const Clock::time_point start = Clock::now();
    backend.run_pass(with_op ? memory_.batch() : other.view(), body);
    backend.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto trial = [&](int calls) {
    const Clock::time_point start = Clock::now();
    ops(calls, true);
    backend.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  trial(1);
  constexpr int kTrial = 3;
  const double once = trial(kTrial) / kTrial;
  const int calls = static_cast<int>(std::clamp(kBurstSeconds / once, 1.0, 1000.0));
  // A device runs the first pass of a form op by op and records the second.
  for (int i = 0; i < (on_device ? 2 : 0); ++i) {
    burst(calls, true);
    burst(calls, false);
  }
  // What an op adds may be next to nothing, or less by chance: the number of pairs goes by the time
  // of a burst and not by the difference, which might never fill a sample.
  const double bursts = std::ceil(options.sample_seconds / std::max(calls * once, 1e-6));
  const int pairs = on_device ? 6 : static_cast<int>(std::clamp(bursts, 1.0, 1000.0));
  RepeatOptions samples = options;
  samples.sample_seconds = 0;
  const auto difference = [&] {
    double sum = 0;
    for (int i = 0; i < pairs; ++i) sum += burst(calls, true) - burst(calls, false);
    return sum / pairs;
  };
  TimedPoint timed;
  timed.samples = repeat(difference, samples);
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
