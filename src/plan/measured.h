// A machine that `plan calibrate` has measured, as the planner sees it: its numbers, and the time of
// each part of a step by the kernels that were fitted there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "plan/calibration.h"
#include "plan/step.h"

namespace baltoro::plan {

// The newest calibration of `folder` for this machine and build, of whatever backend, threads and
// activations. Throws Error{kUsage} with the command to type where there is none, or only what
// another machine, build or version wrote.
Calibration newest_calibration(const std::filesystem::path& folder, const CalibrationKey& now);

// One device of `memory_bytes`: P, B of the largest working set, no links and no tiers.
Hardware measured_hardware(const Calibration& calibration, double memory_bytes);
// Rates whose range is where nine of ten points of the fit lie.
Efficiency measured_efficiency(std::shared_ptr<const Calibration> calibration);

// Of one part of a step that moves `step_bytes` in all: where those lie, in a cache or in memory,
// decides the bandwidth. Throws Error{kUsage} for a format that the engine has no kernel for, with
// the nearest one, and as Calibration::kernel.
PartTime measured_part_time(const Scenario& scenario, const StepShape& microbatch, Part part,
                            const PartWork& work, double step_bytes);

}  // namespace baltoro::plan
