// Stands in for the CUDA backend in builds without one.
#include "core/error.h"
#include "cuda/backend.h"

namespace baltoro {

std::unique_ptr<Backend> make_cuda_backend(int device, Activations /*activations*/) {
  fail(ErrorCode::kUnsupported,
       "device cuda:{}: this version of baltoro runs on the CPU only; use --device cpu", device);
}

}  // namespace baltoro
