// Loading for a GPU: what goes to its memory, what stays with the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "baltoro/engine.h"
#include "engine/working_memory.h"
#include "model/device_placement.h"
#include "model/loader.h"
#include "model/place_weights.h"
#include "ops/backend.h"

namespace baltoro {

// A checkpoint whose matrices are holes, for EngineOptions::random_weights. Needed until the model
// is loaded: files that are mapped stay readable.
class HollowModel {
 public:
  // `config`: a config.json or a directory with one. Throws Error{kUsage} for a backend of the host,
  // and as synthesize().
  HollowModel(const std::filesystem::path& config, const Backend& backend);
  ~HollowModel();
  HollowModel(const HollowModel&) = delete;
  HollowModel& operator=(const HollowModel&) = delete;

  const std::filesystem::path& dir() const noexcept { return dir_; }

 private:
  std::filesystem::path dir_;
};

// What the model's parts take of a device, one of its passes `working`.
DeviceDemand device_demand(const std::filesystem::path& dir, const ModelConfig& config,
                           const WorkingMemory& working);

struct DevicePlan {
  std::uint64_t limit = 0;    // bytes of the device that may be taken
  std::uint64_t working = 0;  // activations, scratch, state
  DevicePlacement place;
};

// What choose_placement() finds for the free memory, or for EngineOptions::device_memory. Throws
// Error{kDoesNotFit} with the bytes of each part, Error{kUnsupported, kUsage} for options that what
// remains for the host does not have.
DevicePlan plan_device(const std::filesystem::path& dir, const ModelConfig& config,
                       const EngineOptions& options, const Backend& device,
                       const WorkingMemory& working);

// Copies the weights to the device and completes the memory plan of `loaded`.
PlacedWeights place_on_device(const DevicePlan& plan, const EngineOptions& options, Backend& device,
                              LoadedModel& loaded);

}  // namespace baltoro
