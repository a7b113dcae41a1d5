// The choice of a backend by load options: the one place that knows the concrete ones.
#pragma once

#include <memory>

#include "baltoro/engine.h"
#include "ops/backend.h"

namespace baltoro {

// Uses device, activations, num_threads and isa. Throws Error{kUsage} for an unknown device, and as
// make_cpu_backend.
std::unique_ptr<Backend> make_backend(const EngineOptions& options);

// The device with routed experts on the CPU (engine/host_experts.h).
std::unique_ptr<Backend> with_host_experts(std::unique_ptr<Backend> device,
                                           const EngineOptions& options);

}  // namespace baltoro
