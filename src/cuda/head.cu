#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/head.h"

namespace baltoro::cuda {

void head(Context& /*context*/, const HeadArgs& /*args*/) {
  unsupported("head", "not written yet");
}

}  // namespace baltoro::cuda
