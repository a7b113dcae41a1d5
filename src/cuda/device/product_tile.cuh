// What the tensor-core products share (product_stream.cu, product_tiled.cu), so that both sum in
// the same order: K in steps of kStepK, step s to partial sum s % kPartials, the partial sums added
// in order at the end. Inside a step thread t of four takes eight neighbouring k at a time: the
// order of k inside an mma is free as long as both operands agree, and so all loads are of 16
// bytes and no operand is shuffled.
#pragma once

#include "cuda/device/finish.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {

constexpr int kLoadK = 8;            // bf16 in 16 bytes
constexpr int kSliceK = 4 * kLoadK;  // one load of a warp, two mma
constexpr int kSlices = 2;
constexpr int kStepK = kSlices * kSliceK;
constexpr int kPartials = 8;
constexpr int kTile = 16;  // rows of a weight in an mma
constexpr int kToken = 8;  // rows of x in an mma

// One of the two mma of a slice. w: rows g and g + 8 of a tile.
__device__ __forceinline__ void add_half(float4& sum, const uint4 (&w)[2], const uint4& x,
                                         int half) {
  if (half == 0) {
    mma_bf16(sum, uint4{w[0].x, w[1].x, w[0].y, w[1].y}, x.x, x.y);
  } else {
    mma_bf16(sum, uint4{w[0].z, w[1].z, w[0].w, w[1].w}, x.z, x.w);
  }
}

// The rows of a block: of kWeights weights, kTiles tiles a warp, those of one weight together.
template <int kWeights, int kTiles>
struct BlockRows {
  static_assert(kTiles % kWeights == 0);
  static constexpr int kTilesEach = kTiles / kWeights;
  static constexpr int kApart = kTilesEach * kTile;  // rows of weight 0 and weight 1

  // Which weight, and which of its rows in the block, is row `row` of the block.
  static __device__ __forceinline__ int weight(int row) {
    return row / kTile % kTiles / kTilesEach;
  }
  static __device__ __forceinline__ int row_of_weight(int row) {
    const int tile = row / kTile;
    return (tile / kTiles * kTilesEach + tile % kTilesEach) * kTile + row % kTile;
  }
  // The inverse for weight 0; that row of weight 1 lies kApart behind.
  static __device__ __forceinline__ int row_of_block(int r) {
    const int tile = r / kTile;
    return (tile / kTilesEach * kTiles + tile % kTilesEach) * kTile + r % kTile;
  }
};

// Tiles with half of their rows from each of two weights.
struct HalfTileRows {
  static constexpr int kApart = kTile / 2;

  static __device__ __forceinline__ int weight(int row) { return row % kTile / kApart; }
  static __device__ __forceinline__ int row_of_weight(int row) {
    return row / kTile * kApart + row % kApart;
  }
  static __device__ __forceinline__ int row_of_block(int r) {
    return r / kApart * kTile + r % kApart;
  }
};

// Finds the weight of a block; leaves in `block` its number among that weight's.
__device__ __forceinline__ int weight_of_block(const Product& p, int rows_a_block, int& block) {
  for (int index = 0;; ++index) {
    const auto rows = p.outputs[index].weight.rows;
    const int blocks = static_cast<int>((rows + rows_a_block - 1) / rows_a_block);
    if (block < blocks) return index;
    block -= blocks;
  }
}

}  // namespace baltoro::cuda
