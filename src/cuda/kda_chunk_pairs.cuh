// Products of pairs of rows of a chunk, 64 key channels at a time; sums stay in registers from one
// 64 to the next. Pairs inside a tile go by products of decays row by row; a pair of different tiles
// splits at the start of the later one, so that no row after it takes part.
#pragma once

#include "cuda/kda_chunk.cuh"

namespace baltoro::cuda {

// Floats of a row in shared memory: float4 of 8 rows fall into different banks.
constexpr int kRowStride = kChannels + 4;

// The channels in hand.
struct PairShared {
  float q[kChunkRows * kRowStride];  // q, then times the decays from its tile's start
  float k[kChunkRows * kRowStride];  // k, then likewise; at last A, transposed
  // Decays, then k times the decays from behind its row to its tile's end.
  float decay[kChunkRows * kRowStride];
  float total[kChunkTiles][kChannels];  // a tile's whole decay
  float norms[2][kChunkRows];           // scales of the L2 norms of q and k
  float beta[kChunkRows];
};
// Two blocks an SM where that has 164 KB.
static_assert(sizeof(PairShared) <= 80 << 10);

__device__ __forceinline__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ float4 times(float4 a, float4 b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}
__device__ __forceinline__ float add_dot(float sum, float4 a, float4 b) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// Pairs (i, j) of one tile, for one j: eight warps, two a tile, of which four lanes share a j.
struct InsidePairs {
  static constexpr int kWarps = 2 * kChunkTiles;

  __device__ InsidePairs(int warp, int lane)
      : tile_(warp / 2), first_(warp % 2 * 8), j_(first_ + lane / 4), part_(lane % 4) {}

  __device__ __forceinline__ void add(const PairShared& s) {
#pragma unroll 1
    for (int d = 4 * part_; d < kChannels; d += 16) {
      const int at = tile_ * kTileRows * kRowStride + d;
      float4 ahead{};  // k_j times the decays of rows j + 1 .. i
#pragma unroll
      for (int i = 0; i < kTileRows; ++i) {
        if (i < first_) continue;
        const float4 k = load4(s.k + at + i * kRowStride);
        ahead = i == j_ ? k : times(ahead, load4(s.decay + at + i * kRowStride));
        kk_[i] = add_dot(kk_[i], k, ahead);
        qk_[i] = add_dot(qk_[i], load4(s.q + at + i * kRowStride), ahead);
      }
    }
  }
  // `a`: [64, kRowStride], transposed.
  __device__ __forceinline__ void store(const float* beta, float* a, float* p) const {
    const int column = tile_ * kTileRows + j_;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      float kk = kk_[i], qk = qk_[i];
#pragma unroll
      for (int offset = 2; offset > 0; offset /= 2) {
        kk += __shfl_xor_sync(0xffffffffu, kk, offset);
        qk += __shfl_xor_sync(0xffffffffu, qk, offset);
      }
      if (i % 4 != part_) continue;
      const int row = tile_ * kTileRows + i;
      p[row * kChunkRows + column] = i >= j_ ? qk : 0.0f;
      a[column * kRowStride + row] = i > j_ ? beta[row] * kk : 0.0f;
    }
  }
  __device__ int tile() const { return tile_; }

 private:
  int tile_, first_, j_, part_;
  float kk_[kTileRows] = {};
  float qk_[kTileRows] = {};
};

// Pairs of tile i with an earlier tile j, of queries or of keys: a warp each, a lane four rows and
// two columns.
struct TilePairs {
  static constexpr int kWarps = kChunkTiles * (kChunkTiles - 1);

  __device__ TilePairs(int warp, int lane)
      : is_key_(warp % 2 == 1), row_(lane / 8), column_(lane % 8) {
    const int pair = warp / 2;  // (1,0) (2,0) (2,1) (3,0) (3,1) (3,2)
    i_ = pair < 1 ? 1 : (pair < 3 ? 2 : 3);
    j_ = pair - i_ * (i_ - 1) / 2;
  }

  __device__ __forceinline__ void add(const PairShared& s) {
    const float* left = (is_key_ ? s.k : s.q) + (i_ * kTileRows + row_) * kRowStride;
    const float* right = s.decay + (j_ * kTileRows + column_) * kRowStride;
#pragma unroll 2
    for (int d = 0; d < kChannels; d += 4) {
      float4 b[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) b[c] = load4(right + 8 * c * kRowStride + d);
      for (int between = j_ + 1; between < i_; ++between) {
        const float4 decay = load4(s.total[between] + d);
#pragma unroll
        for (int c = 0; c < 2; ++c) b[c] = times(b[c], decay);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float4 a = load4(left + 4 * r * kRowStride + d);
#pragma unroll
        for (int c = 0; c < 2; ++c) sums_[r][c] = add_dot(sums_[r][c], a, b[c]);
      }
    }
  }
  __device__ __forceinline__ void store(const float* beta, float* a, float* p) const {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = i_ * kTileRows + row_ + 4 * r;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = j_ * kTileRows + column_ + 8 * c;
        if (is_key_) {
          a[column * kRowStride + row] = beta[row] * sums_[r][c];
        } else {
          p[row * kChunkRows + column] = sums_[r][c];
        }
      }
    }
  }
  __device__ int tile() const { return i_; }

 private:
  bool is_key_;
  int row_, column_, i_, j_;
  float sums_[4][2] = {};
};

}  // namespace baltoro::cuda
