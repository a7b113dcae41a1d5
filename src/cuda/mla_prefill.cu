#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/mla.h"

namespace baltoro::cuda {

void mla_prefill(Context& /*context*/, const MlaArgs& /*args*/) {
  unsupported("mla_prefill", "not written yet");
}

}  // namespace baltoro::cuda
