#include "measure/tier_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/error.h"
#include "cpu/peak.h"
#include "engine/make_backend.h"
#include "engine/working_memory.h"
#include "io/memory.h"
#include "measure/calibrate.h"
#include "measure/machine.h"
#include "measure/memory_bandwidth.h"
#include "plan/device_preset.h"
#include "plan/inventory.h"
#include "plan/measured.h"

namespace baltoro {
namespace {

plan::Quantity measured(double value) {
  return {value, plan::Provenance::kMeasured, "read just now"};
}

// Nothing where there is none of this backend, build and number of threads.
std::shared_ptr<const plan::Calibration> calibration_of(const Backend& backend) {
  const plan::CalibrationKey key = calibration_key(backend);
  const std::filesystem::path file = plan::default_calibration_path(key);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return nullptr;
  try {
    return std::make_shared<const plan::Calibration>(plan::load_calibration(file, key));
  } catch (const Error&) {
    return nullptr;  // stale
  }
}

// Rates of a calibration, if there is one.
bool calibrate(const Backend& backend, plan::TierSide& side) {
  std::shared_ptr<const plan::Calibration> calibration = calibration_of(backend);
  if (!calibration) return false;
  side.hardware = plan::measured_hardware(*calibration, 0);
  side.efficiency = plan::measured_efficiency(std::move(calibration));
  return true;
}

plan::TierSide device_side(const EngineOptions& options, const ModelConfig& config,
                           Backend& device) {
  plan::TierSide side;
  const std::string name(device.name());  // "cuda:0 NVIDIA H200"
  const std::string model = name.substr(std::min(name.size(), name.find(' ') + 1));
  if (!calibrate(device, side)) {
    side.hardware = plan::preset_of_device(model).value_or(plan::Hardware{});
  }
  side.hardware.title = model;
  const std::uint64_t free_bytes = device.free_memory().value_or(0);
  const std::uint64_t limit = std::min(free_bytes, options.device_memory.value_or(free_bytes));
  side.hardware.memory_bytes = measured(static_cast<double>(limit));
  const WorkingMemory working = working_memory(options, config, device);
  side.working_bytes = static_cast<double>(working.total());
  side.layer_states.assign(working.states.begin(), working.states.end());
  return side;
}

plan::TierSide host_side(const EngineOptions& options, const ModelConfig& config, bool measures) {
  // Its options of a device are not the host's.
  const EngineOptions on_host{.activations = options.activations,
                              .num_threads = options.num_threads,
                              .isa = options.isa,
                              .max_batch_rows = options.max_batch_rows};
  const std::unique_ptr<Backend> backend = make_backend(on_host);
  plan::TierSide side;
  if (!calibrate(*backend, side) && measures) {
    const int threads = backend->num_threads();
    // A model that a cache holds is read from there.
    const double bytes = plan::total_bytes(plan::model_from_config(config, "the model"));
    const auto probe = static_cast<std::int64_t>(
        std::clamp(bytes, double{1 << 20}, static_cast<double>(kMemoryProbeBytes)));
    side.hardware.memory_bandwidth = measured(measure_read_bandwidth(options.isa, threads, probe));
    side.hardware.bf16_flops =
        measured(measure_cpu_peak(options.isa, threads, options.activations));
  }
  side.hardware.title =
      fmt::format("{}, {} threads", describe_machine().cpu, backend->num_threads());
  const std::uint64_t limit = options.memory_limit.value_or(default_memory_limit());
  side.hardware.memory_bytes = measured(static_cast<double>(limit));
  side.working_bytes = static_cast<double>(resident_memory_bytes() +
                                           working_memory(on_host, config, *backend).total());
  return side;
}

}  // namespace

plan::TierMachine tier_machine(const EngineOptions& options, const ModelConfig& config,
                               HostRates host_rates) {
  plan::TierMachine machine;
  const std::unique_ptr<Backend> backend = make_backend(options);
  if (!backend->uses_host_memory()) machine.device = device_side(options, config, *backend);
  const bool measures = host_rates == HostRates::kAlways ||
                        plan::choose_place(plan::model_from_config(config, "the model"), machine,
                                           options.experts) != plan::Place::kDevice;
  machine.host = host_side(options, config, measures);
  return machine;
}

}  // namespace baltoro
