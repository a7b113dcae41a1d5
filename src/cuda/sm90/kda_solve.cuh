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

// The tiles below the inverted diagonal. By the whole block of threads, between barriers.
__device__ __forceinline__ void merge_inverses(float* a, int warp, int lane) {
  if (warp < 2) {
    const int column = 2 * kTile * warp;
    const PairTile z = merge_tile<1>(a, column + kTile, column, 0, 0, lane);
    __syncwarp();
    store_negated(a, z, column + kTile, column, lane);
  }
  __syncthreads();
  PairTile z{};
  const int rows = warp / 2, part = warp % 2;
  if (warp < 4) z = merge_tile<2>(a, 2 * kTile, 0, rows, part, lane);
  __syncthreads();
  if (warp < 4) store_negated(a, z, kTile * (2 + rows), kTile * part, lane);
  __syncthreads();
}

// W and U: warp w makes key channels and value columns [16 w, +16). -W goes to q_left, which
// nothing reads any more.
__device__ __forceinline__ void apply_inverse(PrepareShared& s, BlockRecord& out, int warp,
                                              int lane) {
  const int g = lane / 4, t = 2 * (lane % 4), column = 16 * warp;
  uint4 keys[kTiles], values[kTiles];
  float low = 0, high = 0;  // sums of the tiles before
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const uint4 k = load_matrices_transposed(head_piece(s.k_left, kTile * j, column, lane));
    const float l = exp2_fast(low), h = exp2_fast(high);
    keys[j] = {scale_pair(k.x, {l, l}), scale_pair(k.y, {l, l}), scale_pair(k.z, {h, h}),
               scale_pair(k.w, {h, h})};
    const uint4 v = load_matrices_transposed(head_piece(s.right, kTile * j, column, lane));
    values[j] = {v.x, v.z, v.y, v.w};
    low += s.total[j][column + g];
    high += s.total[j][column + 8 + g];
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float4 w[2]{}, u[2]{};
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      const float* at = s.a + (kTile * i + g) * kPairStride + kTile * j + t;
      const float2 beta0 = *reinterpret_cast<const float2*>(s.beta + kTile * j + t);
      const float2 beta1 = *reinterpret_cast<const float2*>(s.beta + kTile * j + 8 + t);
      const auto pair = [at](int offset, float2 beta) {
        const float2 value = *reinterpret_cast<const float2*>(at + offset);
        return pack_bf16(value.x * beta.x, value.y * beta.y);
      };
      const uint4 inverse{pair(0, beta0), pair(8 * kPairStride, beta0), pair(8, beta1),
                          pair(8 * kPairStride + 8, beta1)};
      mma_bf16(w[0], inverse, keys[j].x, keys[j].y);
      mma_bf16(w[1], inverse, keys[j].z, keys[j].w);
      mma_bf16(u[0], values[j], inverse.x, inverse.z);
      mma_bf16(u[1], values[j], inverse.y, inverse.w);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int r = kTile * i + g, c = column + 8 * n + t;
      store_pair(s.q_left + head_offset(r, c), -w[n].x, -w[n].y);
      store_pair(s.q_left + head_offset(r + 8, c), -w[n].z, -w[n].w);
    }
    out.u[warp][i][lane] = {pack_bf16(u[0].x, u[0].y), pack_bf16(u[0].z, u[0].w),
                            pack_bf16(u[1].x, u[1].y), pack_bf16(u[1].z, u[1].w)};
  }
}

}  // namespace baltoro::cuda
