// Absorbed decode in three steps: queries raised into the latent, attention over segments of pages,
// segments merged and projected. Latents of one bf16 layout, any number of heads.
#pragma once

#include "cuda/context.h"
#include "cuda/mla_split.cuh"
#include "ops/mla.h"

namespace baltoro::cuda {

// What the three steps exchange, in scratch memory. R generated rows, S segments.
struct DecodeBuffers {
  SplitPlan plan;
  const void* kv_b;     // bf16, aligned for vectors
  void* queries;        // bf16 [R, H, Ckv + Dr]: W_UK^T q_nope, then q_side
  float* partial;       // [S, H, Ckv]: sum of exp2(score - largest) c
  float2* partial_sum;  // [S, H]: (largest score in base 2, sum of exp2)
  float* context;       // [R, H, Ckv]
};

// Writes the cache of the generated rows, lists them with their pages in plan.rows, and raises their
// queries.
void mla_prepare(Context& context, const MlaArgs& args, const DecodeBuffers& buffers);
void mla_merge(Context& context, const MlaArgs& args, const DecodeBuffers& buffers);
// W_UV and the output gate.
void mla_project(Context& context, const MlaArgs& args, const DecodeBuffers& buffers);

namespace sm90 {

// Whether the kernel of this name below serves the shape: heads of any number over a latent of 512
// and a side key of 64, bf16.
bool serves_mla_decode(const Context& context, const MlaArgs& args);
// The blocks among which it splits the pages of all rows.
std::int32_t mla_decode_blocks(const Context& context, const MlaArgs& args);
// Fills partial and partial_sum.
void mla_decode_segments(Context& context, const MlaArgs& args, const DecodeBuffers& buffers);

}  // namespace sm90
}  // namespace baltoro::cuda
