// Stands in for the CUDA backend in builds without one.
#include "core/error.h"
#include "cuda/backend.h"

namespace baltoro {

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  fail(ErrorCode::kUnsupported,
       "device cuda:{}: this binary was built without CUDA; build with `cmake --preset cuda`, or "
       "use --device cpu",
       options.device);
}

int num_cuda_devices() { return 0; }

}  // namespace baltoro
