// The CUDA backend, seen from the engine. Includes no CUDA header.
#pragma once

#include <memory>

#include "baltoro/types.h"
#include "ops/backend.h"

namespace baltoro {

// Throws Error{kUnsupported} where this build has no CUDA backend.
std::unique_ptr<Backend> make_cuda_backend(int device, Activations activations);

}  // namespace baltoro
