// What an Engine is made of, for itself and for what measures a model without sessions.
#pragma once

#include <filesystem>
#include <memory>

#include "baltoro/engine.h"
#include "engine/device_load.h"
#include "engine/working_memory.h"
#include "model/loader.h"
#include "model/place_weights.h"
#include "ops/backend.h"

namespace baltoro {

struct EngineParts {
  std::filesystem::path dir;  // of the files: with random weights those of `hollow`
  std::unique_ptr<HollowModel> hollow;
  std::unique_ptr<Backend> backend;  // a device's may have its experts on the host
  // What computes the layers that the device has no room for; null where it has all.
  std::shared_ptr<Backend> host;
  LoadedModel loaded;
  PlacedWeights placed;  // on a device
  LoadTimes times;
};

// Throws as Engine::load.
EngineParts load_parts(const std::filesystem::path& dir, const EngineOptions& options);
// The same for a backend that stands for EngineOptions::device.
EngineParts load_parts(const std::filesystem::path& dir, const EngineOptions& options,
                       std::unique_ptr<Backend> backend);

// Throws Error{kUsage, kUnsupported} for what contradicts itself.
void check_options(const EngineOptions& options);
// How load_model() is to load with passes that take so much.
LoadOptions load_options(const EngineOptions& options, const WorkingMemory& working);

}  // namespace baltoro
