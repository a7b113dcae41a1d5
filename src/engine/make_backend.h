// The choice of a backend by load options: the one place that knows the concrete ones.
#pragma once

#include <memory>

#include "baltoro/engine.h"
#include "ops/backend.h"

namespace baltoro {

// Uses device, activations, num_threads and isa. Throws Error{kUsage} for an unknown device, and as
// make_cpu_backend.
std::unique_ptr<Backend> make_backend(const EngineOptions& options);

// The CPU, which computes what a device has no room for.
std::unique_ptr<Backend> make_host_backend(const EngineOptions& options);

}  // namespace baltoro
