// Decode of many sequences on Hopper: blocks that stay, with the next states on their way.
#pragma once

#include "cuda/kda.cuh"

namespace baltoro::cuda {

// Whether device and binary have the kernel.
template <typename T>
bool has_kda_stream(const Context& context);

// A batch of one generated row a sequence. Dk = Dv = 128, W = 4, a decay per channel.
template <typename T>
void kda_stream(Context& context, const KdaParams<T>& p, const DeviceBatch& batch);

}  // namespace baltoro::cuda
