#include "measure/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/trace.h"
#include "measure/forward_batch.h"
#include "measure/state_probe.h"
#include "measure/statistics.h"

namespace baltoro {
namespace {

// Generated tokens of a run: the first steps after a fork copy a page.
constexpr int kDecodeSteps = 8;

// Sums the durations of the ops of a step, whose order is always the same, and of whole steps.
class StepTimes final : public TraceSink {
 public:
  explicit StepTimes(std::size_t ops) : seconds_(ops, 0.0) {}

  void record(const TraceEvent& event) override {
    seconds_[next_++ % seconds_.size()] += 1e-9 * static_cast<double>(event.duration_ns);
  }
  void add_wall(double seconds) { wall_ += seconds; }
  void clear() { *this = StepTimes(seconds_.size()); }
  void add(const StepTimes& more) {
    for (std::size_t i = 0; i < seconds_.size(); ++i) seconds_[i] += more.seconds_[i];
    next_ += more.next_;
    wall_ += more.wall_;
  }

  // Means over the steps. Throw where the steps had other ops than those.
  double op_seconds(std::size_t op) const { return seconds_[op] / steps(); }
  double step_seconds() const { return wall_ / steps(); }

 private:
  double steps() const {
    BALTORO_CHECK(next_ > 0 && next_ % seconds_.size() == 0, "{} ops in steps of {}", next_,
                  seconds_.size());
    return static_cast<double>(next_ / seconds_.size());
  }

  std::vector<double> seconds_;
  std::size_t next_ = 0;
  double wall_ = 0;
};

// Tracing while it lives.
class Tracing {
 public:
  explicit Tracing(TraceSink& sink) { set_trace_sink(&sink); }
  ~Tracing() { set_trace_sink(nullptr); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
};

double seconds_of(const OpCall& call, const plan::Calibration& calibration,
                  const plan::MachineState& machine) {
  const plan::KernelCall& kernel = call.kernel;
  if (kernel.work.bytes == 0) return 0;
  return calibration.kernel(kernel.kernel).seconds(kernel.work, machine);
}

class StepVerifier {
 public:
  StepVerifier(const VerifyOptions& options, const plan::Calibration& calibration,
               const LoadedModel& loaded, Engine& engine, Backend& types, const MachineProbe& probe)
      : options_(options),
        calibration_(calibration),
        loaded_(loaded),
        engine_(engine),
        types_(types),
        probe_(probe) {}

  VerifyRow run(const PassShape& shape) const {
    VerifyRow row;
    row.shape = shape;
    // The middle of the steps that are timed.
    PassShape middle = shape;
    if (shape.origin == Origin::kGenerated) middle.depth += kDecodeSteps / 2;
    const StepCalls calls = step_calls(loaded_, types_, middle);
    row.working_set = calls.working_set;
    row.as_calibrated =
        predict_step(calls, calibration_, calibration_.machine(calls.working_set)).seconds;
    row.steps = shape.origin == Origin::kPrompt ? 1 : kDecodeSteps;
    ForwardBatch batch(engine_, shape.batch, shape.depth);
    StepTimes times(calls.ops.size());
    std::vector<plan::MachineState> states;
    const RepeatOptions& repeat = options_.repeat;
    plan::MachineState before = probe_(calls.working_set);
    for (int i = 0; i < repeat.repeats + repeat.max_dropped && !row.measured; ++i) {
      StepTimes sample_times(calls.ops.size());
      const Samples sample = measure(batch, shape, sample_times);
      const plan::MachineState after = probe_(calls.working_set);
      if (sample.gave_up) {
        row.samples.dropped.push_back(sample.dropped.front());
      } else if (states_differ(before, after)) {
        ++row.moved;
      } else {
        row.samples.kept.push_back(sample.kept.front());
        states.push_back(mean({before, after}));
        times.add(sample_times);
      }
      before = after;
      row.measured = std::ssize(states) == repeat.repeats;
    }
    if (row.measured) predict(calls, times, mean(states), row);
    return row;
  }

 private:
  // One sample, kept or dropped.
  Samples measure(ForwardBatch& batch, const PassShape& shape, StepTimes& times) const {
    const Tracing tracing(times);
    bool warm = false;
    const auto run = [&] {
      const double seconds = shape.origin == Origin::kPrompt ? batch.prefill(shape.tokens)
                                                             : batch.decode(kDecodeSteps);
      if (!warm) times.clear();
      if (warm) times.add_wall(seconds);
      warm = true;
      return seconds;
    };
    RepeatOptions one = options_.repeat;
    one.repeats = 1;
    one.max_dropped = 0;
    return repeat(run, one);
  }

  void predict(const StepCalls& calls, const StepTimes& times, const plan::MachineState& machine,
               VerifyRow& row) const {
    row.predicted = predict_step(calls, calibration_, machine);
    // A device is only told of its ops, and of those of a recorded pass not even that.
    if (!types_.uses_host_memory()) return;
    double in_ops = 0;
    for (std::size_t i = 0; i < calls.ops.size(); ++i) {
      const double measured = times.op_seconds(i);
      in_ops += measured;
      add_component(row.components, calls.ops[i].op,
                    seconds_of(calls.ops[i], calibration_, machine), measured);
    }
    add_component(row.components, kBetweenOps, 0, times.step_seconds() - in_ops);
  }

  const VerifyOptions& options_;
  const plan::Calibration& calibration_;
  const LoadedModel& loaded_;
  Engine& engine_;
  Backend& types_;
  const MachineProbe& probe_;
};

}  // namespace

void add_component(std::vector<ComponentTime>& components, const std::string& name,
                   double predicted, double measured) {
  auto found = std::ranges::find(components, name, &ComponentTime::name);
  if (found == components.end()) found = components.insert(found, {name, 0, 0});
  found->predicted += predicted;
  found->measured += measured;
}

Prediction predict_step(const StepCalls& calls, const plan::Calibration& calibration,
                        const plan::MachineState& machine) {
  // Errors of one kernel go together, those of different ones do not.
  std::map<std::string, double> by_kernel;
  for (const OpCall& call : calls.ops) {
    by_kernel[call.kernel.kernel] += seconds_of(call, calibration, machine);
  }
  Prediction prediction;
  double variance = 0;
  for (const auto& [name, seconds] : by_kernel) {
    if (seconds == 0) continue;
    prediction.seconds += seconds;
    variance += std::pow(seconds * calibration.kernel(name).p90_error, 2);
  }
  prediction.low = prediction.seconds - std::sqrt(variance);
  prediction.high = prediction.seconds + std::sqrt(variance);
  return prediction;
}

std::vector<PassShape> default_verify_shapes() {
  constexpr Origin kGenerated = Origin::kGenerated, kPrompt = Origin::kPrompt;
  return {{1, 1, 64, kGenerated},  {1, 1, 1536, kGenerated}, {2, 1, 640, kGenerated},
          {4, 1, 256, kGenerated}, {8, 1, 192, kGenerated},  {16, 1, 128, kGenerated},
          {1, 96, 0, kPrompt},     {1, 384, 0, kPrompt},     {1, 192, 768, kPrompt},
          {3, 64, 128, kPrompt}};
}

VerifyVerdict judge(const std::vector<VerifyRow>& rows) {
  VerifyVerdict verdict;
  std::vector<double> errors, calibrated;
  for (const VerifyRow& row : rows) {
    if (row.measured) {
      errors.push_back(std::fabs(row.error()));
      calibrated.push_back(std::fabs(row.as_calibrated / row.measured_seconds() - 1));
    } else {
      ++verdict.num_dropped;
    }
  }
  verdict.num_rows = static_cast<int>(errors.size());
  if (errors.empty()) {
    verdict.text = "no step was measured: the machine was never the same before and after one";
    return verdict;
  }
  const Summary summary = summarize(std::move(errors));
  verdict.median_error = summary.median;
  verdict.worst_error = summary.max;
  const Summary as_calibrated = summarize(std::move(calibrated));
  verdict.calibrated_median = as_calibrated.median;
  verdict.calibrated_worst = as_calibrated.max;
  const bool enough = verdict.num_dropped == 0 || verdict.num_rows >= kMinVerifyRows;
  const bool accurate =
      verdict.median_error <= kMaxMedianError && verdict.worst_error <= kMaxWorstError;
  verdict.passed = enough && accurate;
  verdict.text = fmt::format(
      "{}: over {} steps the median error is {:.1f} % (at most {:.0f} %), the worst {:.1f} % (at "
      "most {:.0f} %)",
      accurate ? "within the bounds" : "BEYOND THE BOUNDS", verdict.num_rows,
      100 * verdict.median_error, 100 * kMaxMedianError, 100 * verdict.worst_error,
      100 * kMaxWorstError);
  if (!enough) {
    verdict.text += fmt::format("; too few steps: {} were dropped and {} are needed",
                                verdict.num_dropped, kMinVerifyRows);
  }
  return verdict;
}

void verify(const VerifyOptions& options, const plan::Calibration& calibration, Backend& types,
            const MachineProbe& probe, const std::function<void(const VerifyRow&)>& on_row) {
  for (const PassShape& shape : options.shapes) {
    const std::int64_t rows = shape.batch * shape.tokens;
    if (rows <= options.engine.max_batch_rows) continue;
    fail(ErrorCode::kUsage,
         "{} sequences with {} tokens each are {} rows; one pass takes at most {}", shape.batch,
         shape.tokens, rows, options.engine.max_batch_rows);
  }
  LoadOptions load;
  load.config = {options.engine.latent_norm_eps};
  load.mode = LoadMode::kMap;  // shapes are all that is read of it
  const LoadedModel loaded = load_model(options.dir, load);
  const std::shared_ptr<Engine> engine = Engine::load(options.dir, options.engine);
  const StepVerifier verifier(options, calibration, loaded, *engine, types, probe);
  for (const PassShape& shape : options.shapes) on_row(verifier.run(shape));
}

}  // namespace baltoro
