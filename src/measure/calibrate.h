// Microbenchmarks of a backend's ops, and the calibration that they make (plan/calibration.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "measure/op_points.h"
#include "measure/repeat.h"
#include "measure/state_probe.h"
#include "ops/backend.h"
#include "plan/calibration.h"

namespace baltoro {

// What the engine would use. Throws as Engine::load does for device, isa and threads.
std::unique_ptr<Backend> calibration_backend(const EngineOptions& options);

// Of this machine, this build and the backend.
plan::CalibrationKey calibration_key(const Backend& backend);

// The groups of op_points(), in their order, which is that of every backend.
std::vector<std::string> calibration_groups();

struct TimedPoint {
  plan::CalibrationPoint point;  // seconds: the median of `samples`, or 0
  Samples samples;               // gave_up: no time
  int moved = 0;                 // measurements dropped: the machine changed meanwhile

  bool measured() const { return point.sample.seconds > 0; }
};

// One backend's clock for points. Keeps its memory, a few hundred megabytes.
class PointTimer {
 public:
  explicit PointTimer(Backend& backend) : probe_(backend), memory_(backend) {}

  // The state of the machine is measured before and after; all again where the two differ. The time is that of the op on
  // activations that were just written, less that of writing them; of a generated row on a device,
  // that in a recorded pass. Throws as the ops do and
  // Error{kOutOfMemory}.
  TimedPoint time(const OpPoint& point, const RepeatOptions& repeat);

 private:
  TimedPoint time_once(const OpPoint& point, const RepeatOptions& repeat);

  StateProbe probe_;
  RotatingMemory memory_;
};

}  // namespace baltoro
