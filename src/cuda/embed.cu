#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/embed.h"

namespace baltoro::cuda {

void embed(Context& /*context*/, const EmbedArgs& /*args*/) {
  unsupported("embed", "not written yet");
}

}  // namespace baltoro::cuda
