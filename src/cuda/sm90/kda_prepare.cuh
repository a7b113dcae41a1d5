// First pass of the chunkwise KDA prefill: a block of threads makes the record of one (block of
// rows, head). For the conv, warp w has all rows of channels [16 w, +16); for the decays, rows
// [16 (w / 2), +16), its lanes channels 64 (w % 2) + 2 lane, +1.
#pragma once

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/kda.cuh"
#include "cuda/sm90/kda_block.cuh"
#include "cuda/sm90/kda_conv.cuh"

namespace baltoro::cuda {

constexpr int kPairStride = 72;  // floats of a row of `a`: two apart in banks for 8 rows x 4 pairs

struct PrepareShared {
  // bf16 [64, 128] at head_offset. L: the sum of the log decays of a tile's rows up to this one.
  bf16 q_left[kBlock * kHead];  // q before and after SiLU, exp(L) q, at last T in its first panel
  bf16 k_left[kBlock * kHead];  // k before and after SiLU, exp(L) k, at last -W
  // exp(-L) k for pairs inside a tile, exp(L_last - L) k for pairs with later tiles, at last v.
  bf16 right[kBlock * kHead];
  RowsBefore before[2];           // of q and k; of v
  float a[kBlock * kPairStride];  // A, then (I + A)^-1
  float norms[2][kBlock];         // scales of the L2 norms of q and k
  float total[kTiles][kHead];     // sum of a tile's log2 decays
  float beta[kBlock];
};
// Three blocks an SM.
static_assert(sizeof(PrepareShared) <= (227 << 10) / 3 - 1024);

__device__ __forceinline__ void store_pair(bf16* to, float low, float high) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(low, high);
}

// Where a thread's two channels of its tile's rows lie in a matrix: bytes to rows 0 to 7, the others
// are 8 rows on.
struct TilePlaces {
  int row[8];

  __device__ TilePlaces(int tile, int column) {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      row[r] = static_cast<int>(sizeof(bf16)) * head_offset(tile * kTile + r, column);
    }
  }
  __device__ std::uint32_t& word(bf16* matrix, int r) const {
    return *reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(matrix) + row[r % 8] +
                                             r / 8 * 8 * 64 * sizeof(bf16));
  }
};

// L, in powers of two, of two channels from their logits, of which `count` rows exist; `c`: the
// first of H * Dk channels.
template <bool kBounded>
__device__ __forceinline__ void sum_decays(const KdaParams<bf16>& p, bf16* logits,
                                           const TilePlaces& places, int count, std::int64_t c,
                                           float2 (&sums)[kTile]) {
  const float2 bias = *reinterpret_cast<const float2*>(p.dt_bias + c);
  // Bounded: lower_bound / (1 + 2^-(log2e rate (logit + bias))).
  const float slope = -kLog2e * expf(p.a_log[c / kHead]);
  const float2 offset{slope * bias.x, slope * bias.y};
  const float bound = kLog2e * p.lower_bound;
  float2 sum{0, 0};
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const float2 x = unpack_bf16(places.word(logits, r));
    if constexpr (kBounded) {
      sum.x += bound * reciprocal_fast(1.0f + exp2_fast(slope * x.x + offset.x));
      sum.y += bound * reciprocal_fast(1.0f + exp2_fast(slope * x.y + offset.y));
    } else {
      sum.x += slope * softplus(x.x + bias.x);
      sum.y += slope * softplus(x.y + bias.y);
    }
    sums[r] = sum;
  }
  if (count < kTile) {
    __syncwarp();  // keeps this a branch
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      if (r >= count) sums[r] = r == 0 ? float2{0, 0} : sums[r - 1];
    }
  }
}

// bf16(x * scale) of row r of a tile, as the prompt form rounds the norm. Scales are read by fours.
struct RowScales {
  float4 of[kTile / 4];

  __device__ explicit RowScales(const float* scales) {
#pragma unroll
    for (int i = 0; i < kTile / 4; ++i) of[i] = reinterpret_cast<const float4*>(scales)[i];
  }
  __device__ __forceinline__ float operator[](int r) const {
    const float4 four = of[r / 4];
    return r % 4 == 0 ? four.x : r % 4 == 1 ? four.y : r % 4 == 2 ? four.z : four.w;
  }
};
__device__ __forceinline__ std::uint32_t normalized(std::uint32_t pair, float scale) {
  const float2 value = unpack_bf16(pair);
  return pack_bf16(value.x * scale, value.y * scale);
}

constexpr float kQueryScale = 0.08838834764831845f;  // 128^-1/2

// Factors of the pairs, and the two matrices that meet the state. q_left and k_left hold the rows,
// those of the bounded gate before their norm. `ahead`: the right factors of pairs with later tiles.
template <bool kBounded>
__device__ __forceinline__ void store_factors(PrepareShared& s, BlockRecord& out,
                                              const float2 (&sums)[kTile], const TilePlaces& places,
                                              int tile, int column, std::uint32_t (&ahead)[kTile]) {
  float2 before{0, 0}, after{0, 0};
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const float2 total = *reinterpret_cast<const float2*>(&s.total[i][column]);
    before.x += i < tile ? total.x : 0.0f;
    before.y += i < tile ? total.y : 0.0f;
    after.x += i > tile ? total.x : 0.0f;
    after.y += i > tile ? total.y : 0.0f;
  }
  before = {kQueryScale * exp2_fast(before.x), kQueryScale * exp2_fast(before.y)};
  after = {exp2_fast(after.x), exp2_fast(after.y)};
  const float2 last = sums[kTile - 1];
  const float2 total{exp2_fast(last.x), exp2_fast(last.y)};
  const RowScales q_scales(s.norms[0] + kTile * tile), k_scales(s.norms[1] + kTile * tile);
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    float2 q, k;
    if constexpr (kBounded) {
      q = unpack_bf16(normalized(places.word(s.q_left, r), q_scales[r]));
      k = unpack_bf16(normalized(places.word(s.k_left, r), k_scales[r]));
    } else {
      q = unpack_bf16(places.word(s.q_left, r));
      k = unpack_bf16(places.word(s.k_left, r));
    }
    const float2 e{exp2_fast(sums[r].x), exp2_fast(sums[r].y)};
    const float2 ql{q.x * e.x, q.y * e.y};
    places.word(s.q_left, r) = pack_bf16(ql.x, ql.y);
    places.word(s.k_left, r) = pack_bf16(k.x * e.x, k.y * e.y);
    float2 to_end;
    if constexpr (kBounded) {
      // At most 16 rows x 5: below 2^116.
      const float2 right{k.x * exp2_fast(-sums[r].x), k.y * exp2_fast(-sums[r].y)};
      places.word(s.right, r) = pack_bf16(right.x, right.y);
      to_end = {right.x * total.x, right.y * total.y};
    } else {
      to_end = {k.x * exp2_fast(last.x - sums[r].x), k.y * exp2_fast(last.y - sums[r].y)};
    }
    ahead[r] = pack_bf16(to_end.x, to_end.y);
    places.word(out.q, r) = pack_bf16(ql.x * before.x, ql.y * before.y);
    places.word(out.k, r) = pack_bf16(to_end.x * after.x, to_end.y * after.y);
  }
}

// A 16 x 16 product in two accumulators: rows of `left` against rows of `right`, over the channels.
struct PairTile {
  float4 c[2];
};

// The address that a lane gives to load_matrices for the 16 x 16 piece at (row, column).
__device__ __forceinline__ std::uint32_t head_piece(const bf16* matrix, int row, int column,
                                                    int lane) {
  return shared_address(matrix) +
         sizeof(bf16) * head_offset(row + (lane & 15), column + (lane >> 4) * 8);
}
// With the second and the third 8 x 8 in each other's place.
__device__ __forceinline__ std::uint32_t turned_piece(const bf16* matrix, int row, int column,
                                                      int lane) {
  return shared_address(matrix) +
         sizeof(bf16) * head_offset(row + (lane & 7) + (lane >> 4) * 8, column + (lane & 8));
}
// The piece `columns` on from one at column 0; a multiple of 16.
__device__ __forceinline__ std::uint32_t piece_at(std::uint32_t first, int columns) {
  return (first ^ (columns & 63) * sizeof(bf16)) + columns / 64 * kPanel * sizeof(bf16);
}

__device__ __forceinline__ std::uint32_t scale_pair(std::uint32_t pair, float2 by) {
  const float2 value = unpack_bf16(pair);
  return pack_bf16(value.x * by.x, value.y * by.y);
}

// `between`: the sums of the tiles that lie between the rows' and the columns' tile, if any.
__device__ __forceinline__ PairTile multiply_pairs(const bf16* left, int row, const bf16* right,
                                                   int column, int lane, const float* between,
                                                   int num_between) {
  PairTile tile{};
  const std::uint32_t left_at = head_piece(left, row, 0, lane);
  const std::uint32_t right_at = head_piece(right, column, 0, lane);
#pragma unroll
  for (int d = 0; d < kHead; d += 16) {
    uint4 a = load_matrices(piece_at(left_at, d));
    const uint4 b = load_matrices(piece_at(right_at, d));
    if (num_between > 0) {
      float2 low = *reinterpret_cast<const float2*>(between + d + 2 * (lane % 4));
      float2 high = *reinterpret_cast<const float2*>(between + d + 8 + 2 * (lane % 4));
      if (num_between > 1) {
        const float2 l = *reinterpret_cast<const float2*>(between + kHead + d + 2 * (lane % 4));
        const float2 h = *reinterpret_cast<const float2*>(between + kHead + d + 8 + 2 * (lane % 4));
        low = {low.x + l.x, low.y + l.y};
        high = {high.x + h.x, high.y + h.y};
      }
      low = {exp2_fast(low.x), exp2_fast(low.y)};
      high = {exp2_fast(high.x), exp2_fast(high.y)};
      a = {scale_pair(a.x, low), scale_pair(a.y, low), scale_pair(a.z, high),
           scale_pair(a.w, high)};
    }
    mma_bf16(tile.c[0], a, b.x, b.z);
    mma_bf16(tile.c[1], a, b.y, b.w);
  }
  return tile;
}

// Scales of the L2 norms of a tile's rows from the products of its rows with each other.
__device__ __forceinline__ void store_norms(const PairTile& tile, int lane, float* out) {
  const int g = lane / 4;
  if (g / 2 != lane % 4) return;  // not on the diagonal
  out[g] = 1.0f / sqrtf((g % 2 == 0 ? tile.c[0].x : tile.c[0].y) + kL2NormEps);
  out[g + 8] = 1.0f / sqrtf((g % 2 == 0 ? tile.c[1].z : tile.c[1].w) + kL2NormEps);
}

// A pair tile to its place: products of keys to A, of queries to P.
template <bool kOnDiagonal>
__device__ __forceinline__ void store_pairs(PrepareShared& s, BlockRecord& out,
                                            const PairTile& tile, bool is_query, int row,
                                            int column, int lane) {
  const int g = lane / 4, t = 2 * (lane % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + g + 8 * half;
    const float scale = is_query ? kQueryScale : s.beta[r];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int c = column + 8 * h + t;
      float x = scale * (half == 0 ? tile.c[h].x : tile.c[h].z);
      float y = scale * (half == 0 ? tile.c[h].y : tile.c[h].w);
      if constexpr (kOnDiagonal) {
        if (c > r || (c == r && !is_query)) x = 0.0f;
        if (c + 1 > r || (c + 1 == r && !is_query)) y = 0.0f;
      }
      if (is_query) {
        store_pair(out.p + panel_offset(r, c), x, y);
      } else {
        *reinterpret_cast<float2*>(s.a + r * kPairStride + c) = {x, y};
      }
    }
  }
}

// A tile of P above the diagonal.
__device__ __forceinline__ void clear_pairs(BlockRecord& out, int row, int column, int lane) {
  *reinterpret_cast<uint4*>(out.p + panel_offset(row + lane / 2, column + 8 * (lane % 2))) = {0, 0,
                                                                                              0, 0};
}

// Pairs inside a tile of the unbounded gate: they meet at the middle of halves, quarters, ... of
// the tile, so that each factor decays. Leaves the rows after their norm in q_left and k_left. Warp w makes rows of tile w / 2, of queries or (w odd) of keys.
__device__ __forceinline__ PairTile pairs_by_halves(PrepareShared& s, const float2 (&sums)[kTile],
                                                    const TilePlaces& places, int warp, int lane) {
  const int tile = warp / 2, g = lane / 4, t = 2 * (lane % 4);
  const RowScales q_scales(s.norms[0] + kTile * tile), k_scales(s.norms[1] + kTile * tile);
  std::uint32_t q[kTile], k[kTile];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    q[r] = normalized(places.word(s.q_left, r), q_scales[r]);
    k[r] = normalized(places.word(s.k_left, r), k_scales[r]);
  }
  PairTile result{};
#pragma unroll
  for (int step = 0; step < 5; ++step) {
    const int half = (kTile / 2) >> step;  // 0 at last: each row with itself
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      const float2 qr = unpack_bf16(q[r]), kr = unpack_bf16(k[r]);
      float2 e{1, 1};
      if (half > 0) {
        const float2 middle = sums[(r & ~(2 * half - 1)) + half - 1];
        const float sign = (r & half) != 0 ? 1.0f : -1.0f;
        e = {exp2_fast(sign * (sums[r].x - middle.x)), exp2_fast(sign * (sums[r].y - middle.y))};
      }
      places.word(s.right, r) = pack_bf16(kr.x * e.x, kr.y * e.y);
      places.word(s.q_left, r) = pack_bf16(qr.x * e.x, qr.y * e.y);
    }
    __syncthreads();
    const PairTile product = multiply_pairs(warp % 2 == 1 ? s.right : s.q_left, tile * kTile,
                                            s.right, tile * kTile, lane, nullptr, 0);
    const auto belongs = [half](int i, int j) {
      return half == 0 ? i == j
                       : (i / (2 * half) == j / (2 * half) && (i & half) != 0 && (j & half) == 0);
    };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int j = 8 * h + t;
      if (belongs(g, j)) result.c[h].x = product.c[h].x;
      if (belongs(g, j + 1)) result.c[h].y = product.c[h].y;
      if (belongs(g + 8, j)) result.c[h].z = product.c[h].z;
      if (belongs(g + 8, j + 1)) result.c[h].w = product.c[h].w;
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    places.word(s.q_left, r) = q[r];
    places.word(s.k_left, r) = k[r];
  }
  return result;
}

}  // namespace baltoro::cuda
