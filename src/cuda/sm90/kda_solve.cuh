// (I + A)^-1 of one block, in place, and its products with the keys and the values. Part of the
// first pass (kda_prepare.cuh).
#pragma once

#include "cuda/sm90/kda_prepare.cuh"

namespace baltoro::cuda {

// The 16 x 16 tile on the diagonal by forward substitution: lane c < 16 has column c. Inversion by
// repeated squaring would cancel.
__device__ __forceinline__ void invert_tile(float* a, int row, int lane) {
  float* tile = a + row * kPairStride + row;
  float x[kTile];
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    float even = i == lane ? 1.0f : 0.0f, odd = 0;
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 factors = *reinterpret_cast<const float4*>(tile + i * kPairStride + j);
      even -= factors.x * x[j];
      if (j + 1 < i) odd -= factors.y * x[j + 1];
      if (j + 2 < i) even -= factors.z * x[j + 2];
      if (j + 3 < i) odd -= factors.w * x[j + 3];
    }
    x[i] = even + odd;
  }
  __syncwarp();
  if (lane < kTile) {
#pragma unroll
    for (int i = 0; i < kTile; ++i) tile[i * kPairStride + lane] = x[i];
  }
}

// Fragments of 16 x 16 f32 tiles in shared memory, rounded to f16.
__device__ __forceinline__ uint4 left_f16(const float* a, int row, int column, int lane) {
  const float* at = a + (row + lane / 4) * kPairStride + column + 2 * (lane % 4);
  const auto pair = [at](int offset) {
    const float2 value = *reinterpret_cast<const float2*>(at + offset);
    return pack_f16(value.x, value.y);
  };
  return {pair(0), pair(8 * kPairStride), pair(8), pair(8 * kPairStride + 8)};
}
struct RightF16 {
  std::uint32_t low, high;
};
// 16 rows, 8 columns.
__device__ __forceinline__ RightF16 right_f16(const float* a, int row, int column, int lane) {
  const float* at = a + (row + 2 * (lane % 4)) * kPairStride + column + lane / 4;
  return {pack_f16(at[0], at[kPairStride]), pack_f16(at[8 * kPairStride], at[9 * kPairStride])};
}
__device__ __forceinline__ uint4 as_left_f16(const float4& c0, const float4& c1) {
  return {pack_f16(c0.x, c0.y), pack_f16(c0.z, c0.w), pack_f16(c1.x, c1.y), pack_f16(c1.z, c1.w)};
}

// Columns [16 part, +16) of one 16-row tile of -B (A C), where B (at row) and C (at column) are
// inverted diagonal squares of `tiles` tiles each and A lies between them; `rows`: the tile of B.
template <int kSquare>
__device__ __forceinline__ PairTile merge_tile(const float* a, int row, int column, int rows,
                                               int part, int lane) {
  float4 y[kSquare][2]{};
#pragma unroll
  for (int inner = 0; inner < kSquare; ++inner) {
    if (inner > rows) continue;
    const uint4 left = left_f16(a, row + kTile * rows, row + kTile * inner, lane);
#pragma unroll
    for (int n = 0; n < 2 * kSquare; ++n) {
      const RightF16 right = right_f16(a, row + kTile * inner, column + 8 * n, lane);
      mma_f16(y[n / 2][n % 2], left, right.low, right.high);
    }
  }
  PairTile z{};
#pragma unroll
  for (int inner = 0; inner < kSquare; ++inner) {
    if (inner < part) continue;
    const uint4 left = as_left_f16(y[inner][0], y[inner][1]);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const RightF16 right =
          right_f16(a, column + kTile * inner, column + kTile * part + 8 * n, lane);
      mma_f16(z.c[n], left, right.low, right.high);
    }
  }
  return z;
}

__device__ __forceinline__ void store_negated(float* a, const PairTile& z, int row, int column,
                                              int lane) {
  float* at = a + (row + lane / 4) * kPairStride + column + 2 * (lane % 4);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    *reinterpret_cast<float2*>(at + 8 * n) = {-z.c[n].x, -z.c[n].y};
    *reinterpret_cast<float2*>(at + 8 * kPairStride + 8 * n) = {-z.c[n].z, -z.c[n].w};
  }
}

// The tiles below the diagonal of each half of A. By warps 0 and 1.
__device__ __forceinline__ void merge_halves(float* a, int warp, int lane) {
  const int column = 2 * kTile * warp;
  const PairTile z = merge_tile<1>(a, column + kTile, column, 0, 0, lane);
  __syncwarp();
  store_negated(a, z, column + kTile, column, lane);
}

// T = (I + A)^-1 diag(beta), rounded, on and below the diagonal tiles, into a panel of q_left, which
// nothing reads any more. By all warps, between barriers.
__device__ __forceinline__ void store_inverse(PrepareShared& s, int warp, int lane) {
  const int g = lane / 4, t = 2 * (lane % 4);
  if (warp < kTiles) {
    const int row = kTile * (2 + warp / 2), column = kTile * (warp % 2);
    const PairTile z = merge_tile<2>(s.a, 2 * kTile, 0, warp / 2, warp % 2, lane);
    const float2 low = *reinterpret_cast<const float2*>(s.beta + column + t);
    const float2 high = *reinterpret_cast<const float2*>(s.beta + column + 8 + t);
    store_matrices(head_piece(s.q_left, row, column, lane),
                   {pack_bf16(-z.c[0].x * low.x, -z.c[0].y * low.y),
                    pack_bf16(-z.c[0].z * low.x, -z.c[0].w * low.y),
                    pack_bf16(-z.c[1].x * high.x, -z.c[1].y * high.y),
                    pack_bf16(-z.c[1].z * high.x, -z.c[1].w * high.y)});
    return;
  }
  // The halves' own tiles: one on the diagonal a warp, and one below it for two of them.
  const int tile = warp - kTiles;
  for (int column = kTile * (tile & ~1); column <= kTile * tile; column += kTile) {
    const float* at = s.a + (kTile * tile + g) * kPairStride + column + t;
    const float2 low = *reinterpret_cast<const float2*>(s.beta + column + t);
    const float2 high = *reinterpret_cast<const float2*>(s.beta + column + 8 + t);
    const auto pair = [at](int offset, float2 beta) {
      const float2 value = *reinterpret_cast<const float2*>(at + offset);
      return pack_bf16(value.x * beta.x, value.y * beta.y);
    };
    store_matrices(
        head_piece(s.q_left, kTile * tile, column, lane),
        {pair(0, low), pair(8 * kPairStride, low), pair(8, high), pair(8 * kPairStride + 8, high)});
  }
}

// W and U: warp w makes key channels and value columns [16 w, +16). -W takes the place of the keys
// that it is made of.
__device__ __forceinline__ void apply_inverse(PrepareShared& s, BlockRecord& out, int warp,
                                              int lane) {
  const int g = lane / 4, column = 16 * warp;
  uint4 keys[kTiles], values[kTiles];
  float low = 0, high = 0;  // sums of the tiles before
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    keys[j] = load_matrices_transposed(head_piece(s.k_left, kTile * j, column, lane));
    if (j > 0) {
      const float l = exp2_fast(low), h = exp2_fast(high);
      keys[j] = {scale_pair(keys[j].x, {l, l}), scale_pair(keys[j].y, {l, l}),
                 scale_pair(keys[j].z, {h, h}), scale_pair(keys[j].w, {h, h})};
    }
    values[j] = load_matrices_transposed(turned_piece(s.right, kTile * j, column, lane));
    low += s.total[j][column + g];
    high += s.total[j][column + 8 + g];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float4 w[2]{}, u[2]{};
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      // The second time in the order of a right operand, which spares moves between registers.
      const uint4 left = load_matrices(head_piece(s.q_left, kTile * i, kTile * j, lane));
      const uint4 right = load_matrices(turned_piece(s.q_left, kTile * i, kTile * j, lane));
      mma_bf16(w[0], left, keys[j].x, keys[j].y);
      mma_bf16(w[1], left, keys[j].z, keys[j].w);
      mma_bf16(u[0], values[j], right.x, right.y);
      mma_bf16(u[1], values[j], right.z, right.w);
    }
    store_matrices(head_piece(s.k_left, kTile * i, column, lane),
                   {pack_bf16(-w[0].x, -w[0].y), pack_bf16(-w[0].z, -w[0].w),
                    pack_bf16(-w[1].x, -w[1].y), pack_bf16(-w[1].z, -w[1].w)});
    out.u[warp][i][lane] = {pack_bf16(u[0].x, u[0].y), pack_bf16(u[0].z, u[0].w),
                            pack_bf16(u[1].x, u[1].y), pack_bf16(u[1].z, u[1].w)};
  }
}

}  // namespace baltoro::cuda
