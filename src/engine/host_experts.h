// A device whose routed experts are computed by the host, where their weights lie: their inputs and
// outputs cross over, never the weights.
#pragma once

#include <memory>

#include "ops/backend.h"

namespace baltoro {

// Every op runs on `device` but expert_mlp, which runs on `host` (a backend of host memory with the
// same activations, which may run other ops while the device has none of a pass). Bits are those of
// the host's experts.
std::unique_ptr<Backend> make_host_experts(std::unique_ptr<Backend> device,
                                           std::shared_ptr<Backend> host);

}  // namespace baltoro
