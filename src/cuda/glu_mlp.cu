#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/glu_mlp.h"

namespace baltoro::cuda {

void glu_mlp(Context& /*context*/, const GluMlpArgs& /*args*/) {
  unsupported("glu_mlp", "not written yet");
}

}  // namespace baltoro::cuda
