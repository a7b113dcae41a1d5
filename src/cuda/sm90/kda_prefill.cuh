// Chunkwise KDA for prompts on Hopper.
#pragma once

#include "cuda/batch_stage.h"
#include "cuda/context.h"
#include "cuda/kda.cuh"

namespace baltoro::cuda {

// Whether device and binary have the kernels.
bool has_kda_prefill(const Context& context);

// Prompt rows of a batch. Dk = Dv = 128, W = 4, a decay per channel.
void kda_prefill(Context& context, const KdaParams<bf16>& p, const DeviceBatch& batch);

}  // namespace baltoro::cuda
