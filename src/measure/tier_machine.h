// This machine as plan::placements wants it: what may be taken of each memory, and rates by the
// calibration of each side, else by the device's name and by measuring the host.
#pragma once

#include <cstdint>

#include "baltoro/engine.h"
#include "model/config.h"
#include "plan/tiers.h"

namespace baltoro {

// When the host is measured, which takes a fraction of a second, where it is not calibrated.
enum class HostRates : std::uint8_t {
  kAlways,
  kIfUsed,  // not where the engine puts everything on the device: they stay 0
};

// The device that `options` name, if it is none of the host, and the host. Rates of a device that is
// neither calibrated nor known by its name stay 0. Throws as Engine::load does for the device.
plan::TierMachine tier_machine(const EngineOptions& options, const ModelConfig& config,
                               HostRates host_rates = HostRates::kAlways);

}  // namespace baltoro
