// What the two passes of the chunkwise KDA prefill hand over, one record a (block of 64 rows, head).
//
// With G_i the sum of the log decays of rows 0..i of the block, per key channel, and S the state
// before the block, a block is
//   A[i, j] = beta_i k_i . (exp(G_i - G_j) k_j), j < i;  T = (I + A)^-1 diag(beta)
//   new values  N = T V - T (exp(G) K) S
//   O = (exp(G) Q) S + P N,  P[i, j] = q_i . (exp(G_i - G_j) k_j), j <= i
//   S <- diag(exp(G_last)) S + (exp(G_last - G) K)^T N
// The first pass makes everything that does not need S, for all blocks at once; the second walks
// the blocks of a sequence.
#pragma once

#include <cstdint>

#include "cuda/device/activation.cuh"

namespace baltoro::cuda {

constexpr int kBlock = 64;  // rows; kBlockTokens
constexpr int kHead = 128;  // Dk = Dv
constexpr int kTile = 16;   // rows that share an anchor of their decays
constexpr int kTiles = kBlock / kTile;

// Matrices lie as shared memory will hold them, in panels of 64 columns (device/wgmma.cuh).
constexpr int kPanel = kBlock * 64;
__host__ __device__ constexpr int panel_offset(int row, int column) {
  return row * 64 + ((((column >> 3) ^ row) & 7) << 3) + (column & 7);
}
__host__ __device__ constexpr int head_offset(int row, int column) {
  return (column >> 6) * kPanel + panel_offset(row, column);
}

struct BlockRecord {
  bf16 w[kBlock * kHead];   // -T (exp(G) K)
  bf16 q[kBlock * kHead];   // exp(G) Q
  bf16 k[kBlock * kHead];   // exp(G_last - G) K
  bf16 p[kBlock * kBlock];  // P
  float decay[kHead];       // exp(G_last)
  // (T V)^T as the accumulators of mma.m16n8k16 hold it: 16 value columns, 16 rows, lane.
  uint4 u[kHead / 16][kTiles][32];
};
static_assert(sizeof(BlockRecord) == 74240);

}  // namespace baltoro::cuda
