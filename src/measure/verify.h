// The calibration's predictions against real steps of the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "measure/model_work.h"
#include "measure/repeat.h"
#include "measure/step_calls.h"
#include "plan/calibration.h"

namespace baltoro {

// Seconds.
struct Prediction {
  double seconds = 0;
  double low = 0, high = 0;  // by the errors that nine of ten points of the fit stay below
};

struct ComponentTime {
  std::string name;  // an op, or kBetweenOps
  double predicted = 0;
  double measured = 0;
};
// The engine's own work around the ops, which is not predicted: nothing against the ops of a model.
constexpr const char* kBetweenOps = "between ops";

// Adds to the component of that name, behind the others where it is new.
void add_component(std::vector<ComponentTime>& components, const std::string& name,
                   double predicted, double measured);

// One step of the engine.
struct VerifyRow {
  PassShape shape;
  double working_set = 0;
  Prediction predicted;                   // with the state of the machine beside the step
  double as_calibrated = 0;               // seconds, with that of the calibration
  std::vector<ComponentTime> components;  // in order of first use; none on a device
  Samples samples;                        // of a run of steps
  int steps = 1;                          // of a run
  int moved = 0;                          // samples dropped: the machine changed meanwhile
  bool measured = false;                  // else too many were dropped

  double measured_seconds() const { return samples.seconds().median / steps; }
  // predicted / measured - 1
  double error() const { return predicted.seconds / measured_seconds() - 1; }
};

// How good the predictions have to be.
constexpr double kMaxMedianError = 0.15;
constexpr double kMaxWorstError = 0.30;
constexpr int kMinVerifyRows = 8;

struct VerifyVerdict {
  double median_error = 0;  // of |error|
  double worst_error = 0;
  int num_rows = 0;     // measured
  int num_dropped = 0;  // rows without a result
  // The same for as_calibrated; no part of the verdict.
  double calibrated_median = 0;
  double calibrated_worst = 0;
  bool passed = false;
  std::string text;  // "median error 4.1 % (at most 15 %), ..."
};
// Passes within both bounds. Where rows have no result, at least kMinVerifyRows others are needed.
VerifyVerdict judge(const std::vector<VerifyRow>& rows);

// Sum over the calls of the step. Throws Error{kUsage} where the calibration lacks a kernel.
Prediction predict_step(const StepCalls& calls, const plan::Calibration& calibration,
                        const plan::MachineState& machine);

struct VerifyOptions {
  std::filesystem::path dir;
  EngineOptions engine;
  std::vector<PassShape> shapes;
  RepeatOptions repeat;
};

// Ten steps, none of which is a point of the calibration: decodes and prompts.
std::vector<PassShape> default_verify_shapes();

// StateProbe::state, or a stand-in.
using MachineProbe = std::function<plan::MachineState(double working_set)>;

// Each sample of a step is taken between two probes and dropped where they differ; their mean over the
// samples is the state that the step is predicted in. `on_row` as each step is done. Throws as Engine::load and Engine::forward,
// and Error{kUsage} for a shape of more rows than one pass takes.
void verify(const VerifyOptions& options, const plan::Calibration& calibration, Backend& types,
            const MachineProbe& probe, const std::function<void(const VerifyRow&)>& on_row);

}  // namespace baltoro
