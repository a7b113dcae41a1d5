// The roofs of a device, measured through its backend.
#pragma once

#include "baltoro/engine.h"
#include "measure/roof.h"
#include "ops/backend.h"

namespace baltoro {

// Bandwidth: bytes read and written by a large copy, whatever size is asked for. Peak: the largest
// matrix product that the backend does, 8192 rows of a [8192, 8192] weight, so that a share of it
// says how far an op is from the product, not from a datasheet. The backend must outlive the probes.
RoofProbes device_probes(Backend& backend);

// Of the device that `options` name: cpu_probes(), or device_probes() of a backend of its own.
RoofProbes probes_of(const EngineOptions& options);

}  // namespace baltoro
