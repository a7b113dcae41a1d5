// The calls of single ops that the calibration times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measure/rotating_memory.h"
#include "plan/kernel_call.h"

namespace baltoro {

// Runs the op once and says what it did.
using PointCall = std::function<plan::KernelCall()>;

struct OpPoint {
  std::string group;  // the op, or "stream" for the probe of B(x): what is measured together
  std::string name;   // in words: "M=4 K=1024 N=4096, 256 MiB"
  std::int64_t working_set = 0;
  std::function<PointCall(RotatingMemory&)> prepare;  // makes what every call shares
};

// All points, group by group. Shapes are those of small models and of parts of the released ones; on a
// device larger parts.
std::vector<OpPoint> op_points(const Backend& backend);

}  // namespace baltoro
