// What a machine was measured to do: the timed points, the constants that were fitted to them, and
// the file that holds both.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plan/fit.h"

namespace baltoro::plan {

// What the times belong to; with anything else they are stale.
struct CalibrationKey {
  std::string machine;  // the processor, or the device
  std::string backend;  // with its instruction set: "cpu/avx512bf16"
  int threads = 1;
  std::string activations;  // "bf16"
  std::string build;        // version, commit and compiler

  bool operator==(const CalibrationKey&) const = default;
};

struct CalibrationPoint {
  std::string group;   // what is measured together; that of kStreamGroup is B(x)
  std::string kernel;  // kernel_call.h
  KernelSample sample;

  bool operator==(const CalibrationPoint&) const = default;
};
constexpr const char* kStreamGroup = "stream";

struct Calibration {
  CalibrationKey key;
  std::string date;  // of the last measurement, UTC
  std::vector<CalibrationPoint> points;
  Curve bandwidth;                             // B(x), bytes a second
  double flops_per_second = 0;                 // P, the median of the points'
  double dispatch_seconds = 0;                 // t0, the same
  std::map<std::string, KernelModel> kernels;  // by name

  bool has_group(const std::string& group) const;
  // Puts `points` in place of those of the group.
  void replace_group(const std::string& group, std::vector<CalibrationPoint> points);
  // Sets all that follows from the points; without points of kStreamGroup there are none.
  void fit();
  // The state that the points were measured in.
  MachineState machine(double working_set) const {
    return {bandwidth.at(working_set), flops_per_second, dispatch_seconds};
  }
  // Throws Error{kUsage} that names the kernel and the command to type where there is none.
  const KernelModel& kernel(const std::string& name) const;
};

// "calibrate --threads 2 --activations bf16", with what the key has; for messages.
std::string calibrate_command(const CalibrationKey& key);

// $XDG_CACHE_HOME/baltoro/calibration-cpu-avx512bf16-2-bf16.json, ~/.cache where that is not set.
std::filesystem::path default_calibration_path(const CalibrationKey& key);

// Throws Error{kIo}.
void save_calibration(const Calibration& calibration, const std::filesystem::path& file);
// Throws Error{kUsage} where there is no such file, or it is not a calibration of this version; both
// say what to type.
Calibration load_calibration(const std::filesystem::path& file);
// The same, and Error{kUsage} that names the difference where its key is not `now`.
Calibration load_calibration(const std::filesystem::path& file, const CalibrationKey& now);

}  // namespace baltoro::plan
