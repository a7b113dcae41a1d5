// Microbenchmarks of a backend's ops, and the calibration that they make (plan/calibration.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/op_points.h"
#include "measure/repeat.h"
#include "ops/backend.h"
#include "plan/calibration.h"

namespace baltoro {

// Of this machine, this build and the backend.
plan::CalibrationKey calibration_key(const Backend& backend);

// The groups of op_points(), in their order.
std::vector<std::string> calibration_groups();

struct TimedPoint {
  plan::CalibrationPoint point;  // seconds: the median of `samples`, or 0
  Samples samples;               // gave_up: no time

  bool measured() const { return !samples.gave_up; }
};

// Times each point on the backend; `on_point` as each is done. Throws as the ops do and
// Error{kOutOfMemory}.
void time_points(Backend& backend, const std::vector<OpPoint>& points, const RepeatOptions& repeat,
                 const std::function<void(const TimedPoint&)>& on_point);

}  // namespace baltoro
