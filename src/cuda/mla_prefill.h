// Expanded prefill for the head sizes of Kimi K3 and Kimi Linear.
#pragma once

#include "cuda/context.h"
#include "ops/mla.h"

namespace baltoro::cuda::sm90 {

// Heads of 128 + 64 and values of 128 over a latent of 512 and a side key of 64, bf16, not rotated.
bool serves_mla_prefill(const Context& context, const MlaArgs& args);
// Attention and output gate of the prompt rows; the cache holds the rows of this call.
void mla_prefill(Context& context, const MlaArgs& args);

}  // namespace baltoro::cuda::sm90
