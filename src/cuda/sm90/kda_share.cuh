// Decode of few heads on Hopper: blocks that share a head.
#pragma once

#include "cuda/kda.cuh"

namespace baltoro::cuda {

constexpr int kShareBlocks = 4;  // of a head

// Whether device and binary have the kernel.
template <typename T>
bool has_kda_share(const Context& context);

// Generated rows of a batch, with the bits of the other decode kernels. Dk = Dv = 128, W = 4, a decay
// per channel.
template <typename T>
void kda_share(Context& context, const KdaParams<T>& p, const DeviceBatch& batch);

}  // namespace baltoro::cuda
