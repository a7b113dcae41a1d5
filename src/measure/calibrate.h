// Microbenchmarks of a backend's ops, and the calibration that they make (plan/calibration.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "measure/op_points.h"
#include "measure/repeat.h"
#include "ops/backend.h"
#include "plan/calibration.h"

namespace baltoro {

// What the engine would use. Throws as Engine::load does for device, isa and threads.
std::unique_ptr<Backend> calibration_backend(const EngineOptions& options);

// Of this machine, this build and the backend.
plan::CalibrationKey calibration_key(const Backend& backend);

// The groups of op_points(), in their order.
std::vector<std::string> calibration_groups();

struct TimedPoint {
  plan::CalibrationPoint point;  // seconds: the median of `samples`, or 0
  Samples samples;               // gave_up: no time
  int moved = 0;                 // measurements dropped: P or t0 changed meanwhile

  bool measured() const { return point.sample.seconds > 0; }
};

// Two values of one quantity of the machine that are not the same.
bool differ(double a, double b);

// Times each point on the backend, and P and t0 before and after; again where these differ. `on_point` as
// each is done. Throws as the ops do and Error{kOutOfMemory}.
void time_points(Backend& backend, const std::vector<OpPoint>& points, const RepeatOptions& repeat,
                 const std::function<void(const TimedPoint&)>& on_point);

}  // namespace baltoro
