#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "ops/route.h"

namespace baltoro::cuda {

void route(Context& /*context*/, const RouteArgs& /*args*/) {
  unsupported("route", "not written yet");
}

}  // namespace baltoro::cuda
