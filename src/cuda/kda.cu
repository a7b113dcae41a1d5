#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/kda.h"

namespace baltoro::cuda {

void kda_mix(Context& /*context*/, const KdaMixArgs& /*args*/) {
  unsupported("kda_mix", "not written yet");
}

}  // namespace baltoro::cuda
