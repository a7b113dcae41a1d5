// The experts of one layer as kernels find them: six addresses each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "ops/expert_mlp.h"

namespace baltoro::cuda {

// Device addresses of one expert; scales are null for formats without.
struct ExpertEntry {
  const void* w1;
  const std::uint8_t* w1_scales;
  const void* w3;
  const std::uint8_t* w3_scales;
  const void* w2;
  const std::uint8_t* w2_scales;
};

// Device memory with an ExpertEntry for each of the experts; absent ones are null.
Buffer make_expert_table(std::span<const ExpertWeights> experts, cudaStream_t stream);

}  // namespace baltoro::cuda
