// Activations of the experts as fp16 times powers of two, SiTU: what kernels multiply by MXFP4 codes
// that are fp16 (device/mxfp4_half.cuh).
#pragma once

#include <cuda_fp16.h>

#include "cuda/expert_grouped.h"

namespace baltoro::cuda {

// Elements in mxfp4_position order.
struct HalfRows {
  const __half* z;       // [M, width]
  const float* unscale;  // [M], what takes a row's sums over codes to their value
  __half* hidden;        // [pairs, inner], to be filled with the activation's value times `scale`
  float scale;
};

std::size_t half_rows_bytes(const GroupedExperts& experts);
// Takes scratch memory, fills z and unscale. When a kernel launched next with Launch::overlap starts,
// the kernels before this call have ended.
HalfRows make_half_rows(Context& context, const GroupedExperts& experts);
// Between the products: with fp8 rows, rounds the hidden ones.
void finish_hidden(Context& context, const GroupedExperts& experts, const HalfRows& rows);

}  // namespace baltoro::cuda
