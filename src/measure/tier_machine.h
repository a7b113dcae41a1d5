// This machine as plan::placements wants it: what may be taken of each memory, and rates by the
// calibration of each side, else by the device's name and by measuring the host.
#pragma once

#include "baltoro/engine.h"
#include "model/config.h"
#include "plan/tiers.h"

namespace baltoro {

// The device that `options` name, if it is none of the host, and the host. Takes a fraction of a
// second. Rates of a device that is neither calibrated nor known by its name stay 0. Throws as
// Engine::load does for the device.
plan::TierMachine tier_machine(const EngineOptions& options, const ModelConfig& config);

}  // namespace baltoro
