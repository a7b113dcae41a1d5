// A scenario along one or more axes: every combination of their points.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/axis.h"
#include "plan/measures.h"

namespace baltoro::plan {

struct SweepPoint {
  std::vector<std::string> labels;     // one an axis
  std::optional<Evaluated> evaluated;  // nothing where the point is impossible,
  std::string reason;                  // which rule it breaks
};
struct Sweep {
  std::vector<Axis> axes;
  std::vector<SweepPoint> points;  // the last axis runs fastest
};

// `devices` as Trial's. Throws Error{kUsage} without an axis, for an axis that stands twice, and
// where no point is possible (the reason of the first).
Sweep run_sweep(const Scenario& scenario, std::int64_t devices, std::vector<Axis> axes);

// Keys of the measures that answer what the axes ask.
std::vector<std::string> columns_of(const std::vector<Axis>& axes);

}  // namespace baltoro::plan
