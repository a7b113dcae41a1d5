#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/expert_mlp.h"

namespace baltoro::cuda {

void expert_mlp(Context& /*context*/, const ExpertMlpArgs& /*args*/) {
  unsupported("expert_mlp", "not written yet");
}

}  // namespace baltoro::cuda
