// What an Engine is made of, for itself and for what measures a model without sessions.
#pragma once

#include <filesystem>
#include <memory>

#include "baltoro/engine.h"
#include "engine/device_load.h"
#include "model/loader.h"
#include "model/place_weights.h"
#include "ops/backend.h"

namespace baltoro {

struct EngineParts {
  std::filesystem::path dir;  // of the files: with random weights those of `hollow`
  std::unique_ptr<HollowModel> hollow;
  std::unique_ptr<Backend> backend;
  LoadedModel loaded;
  PlacedWeights placed;  // on a device
  LoadTimes times;
};

// Throws as Engine::load.
EngineParts load_parts(const std::filesystem::path& dir, const EngineOptions& options);

// Throws Error{kUsage, kUnsupported} for what contradicts itself.
void check_options(const EngineOptions& options);
// How load_model() is to load on this backend.
LoadOptions load_options(const EngineOptions& options, const ModelConfig& config, Backend& backend);

}  // namespace baltoro
