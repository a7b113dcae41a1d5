// The chunkwise form of the delta rule for one head and one block of at most kBlockTokens rows.
#pragma once

#include "cpu/product.h"
#include "ops/batch.h"

namespace baltoro::cpu {

// Rows of one head in a block, all f32. q is normalised and scaled, k normalised.
struct KdaRows {
  std::int64_t count = 0;
  std::int64_t dk = 0, dv = 0;
  float* q = nullptr;      // [count, Dk]
  float* k = nullptr;      // [count, Dk]
  float* v = nullptr;      // [count, Dv]
  float* decay = nullptr;  // [count, Dk], exp(g)
  float* beta = nullptr;   // [count]
};

struct KdaChunkWork {
  std::int64_t dk = 0, dv = 0;
  ProductWork product;
  float* decayed_q = nullptr;  // [block, Dk] decays from the block's start
  float* decayed_k = nullptr;  // [block, Dk]
  float* tile_q = nullptr;     // [tile, Dk] decays from the tile's start
  float* tile_k = nullptr;     // [tile, Dk]
  float* ahead_k = nullptr;    // [block, Dk] decays to the end of the last finished tile
  float* total = nullptr;      // [Dk] decay of the whole block so far
  float* running = nullptr;    // [Dk]
  float* kk = nullptr;         // [block, block]
  float* qk = nullptr;         // [block, block]
  float* delta = nullptr;      // [block, Dv]
  void carve(Carver& carver);
};

// out [count, Dv] = o of each row, unrounded; state [Dk, Dv] becomes the state after the last row.
// A row's bits depend on the state, itself and the rows before it alone.
void kda_chunk(const Context& context, const KdaRows& rows, float* state, float* out,
               const KdaChunkWork& work);

}  // namespace baltoro::cpu
