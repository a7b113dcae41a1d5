// The CUDA backend, seen from the engine. Includes no CUDA header.
#pragma once

#include <memory>

#include "baltoro/types.h"
#include "ops/backend.h"

namespace baltoro {

struct CudaOptions {
  int device = 0;
  Activations activations = Activations::kBf16;
  // Bits of a row then do not depend on the rows beside it (docs/numerics.md).
  bool deterministic = false;
};

// Throws Error{kUnsupported} where this build has no CUDA backend or the GPU is too old,
// Error{kDevice} where there is no driver or no such device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

// NVIDIA GPUs that this build and this machine can use.
int num_cuda_devices();

}  // namespace baltoro
