#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/mla.h"

namespace baltoro::cuda {

void mla_decode(Context& /*context*/, const MlaArgs& /*args*/) {
  unsupported("mla_decode", "not written yet");
}

}  // namespace baltoro::cuda
