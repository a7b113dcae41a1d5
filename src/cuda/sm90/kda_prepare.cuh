// First pass of the chunkwise KDA prefill: a block of threads makes the record of one (block of
// rows, head). Warp w has rows [16 (w / 2), +16), the lanes channels 64 (w % 2) + 2 lane, +1.
#pragma once

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/kda.cuh"
#include "cuda/sm90/kda_block.cuh"

namespace baltoro::cuda {

constexpr int kPrepareThreads = 256;
constexpr int kPairStride = 72;  // floats of a row of `a`: two apart in banks for 8 rows x 4 pairs
constexpr float kLog2e = 1.4426950408889634f;

struct PrepareShared {
  // bf16 [64, 128] at head_offset. L: the sum of the log decays of a tile's rows up to this one.
  bf16 k_left[kBlock * kHead];   // exp(L) k
  bf16 q_left[kBlock * kHead];   // exp(L) q Dk^-1/2; later -W
  bf16 k_right[kBlock * kHead];  // exp(-L) k, for pairs inside a tile
  bf16 k_ahead[kBlock * kHead];  // exp(L_last - L) k, for pairs with later tiles
  bf16 v[kBlock * kHead];
  float a[kBlock * kPairStride];  // A, then (I + A)^-1
  float squares[2][2][kBlock];    // of q and k, by half of the channels
  float norms[2][kBlock];
  float total[kTiles][kHead];  // sum of a tile's log2 decays
  float beta[kBlock];
};
static_assert(sizeof(PrepareShared) <= (227 << 10) / 2 - 1024);

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float sigmoid_fast(float x) {
  return __fdividef(1.0f, 1.0f + exp2_fast(-kLog2e * x));
}
__device__ __forceinline__ void store_pair(bf16* to, float low, float high) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(low, high);
}

// The rows of one thread: two channels of one head in the 16 rows of one tile.
struct TileRows {
  std::int64_t first_row;  // of the tile, in the batch
  int since_call;          // rows of this call before the tile
  int count;               // rows that exist, in [.., 16]; the others are zero
};

// Two neighbouring channels of the tile's rows after conv and SiLU, rounded: one register a row.
__device__ __forceinline__ void convolve_tile(const KdaParams<bf16>& p, const TileRows& rows,
                                              const ConvChannel<bf16>& channel, std::int64_t slot,
                                              std::uint32_t (&out)[kTile]) {
  const bf16* at = channel.rows + rows.first_row * channel.stride;
  std::uint32_t x[kTile];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    x[r] = r < rows.count ? *reinterpret_cast<const std::uint32_t*>(at + r * channel.stride) : 0;
  }
  float2 window[3];
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    if (rows.count <= 0) {
      window[j] = {0, 0};
    } else if (rows.since_call + j - 3 >= 0) {
      window[j] =
          unpack_bf16(*reinterpret_cast<const std::uint32_t*>(at + (j - 3) * channel.stride));
    } else {
      window[j] = *reinterpret_cast<const float2*>(
          conv_history(p, slot) + (rows.since_call + j) * conv_channels(p) + channel.position);
    }
  }
  const float4 w0 = reinterpret_cast<const float4*>(channel.taps)[0];
  const float4 w1 = reinterpret_cast<const float4*>(channel.taps)[1];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const float2 now = unpack_bf16(x[r]);
    const float y0 = w0.x * window[0].x + w0.y * window[1].x + w0.z * window[2].x + w0.w * now.x;
    const float y1 = w1.x * window[0].y + w1.y * window[1].y + w1.z * window[2].y + w1.w * now.y;
    window[0] = window[1];
    window[1] = window[2];
    window[2] = now;
    const std::uint32_t pair = pack_bf16(y0 * sigmoid_fast(y0), y1 * sigmoid_fast(y1));
    out[r] = r < rows.count ? pair : 0;
  }
}

// Sums of squares of 16 rows over the warp's channels: lane 2 i has that of row i in the end.
__device__ __forceinline__ void store_squares(const std::uint32_t (&x)[kTile], int lane,
                                              float* out) {
  float s[kTile];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const float2 value = unpack_bf16(x[r]);
    s[r] = value.x * value.x + value.y * value.y;
  }
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const int half = (kTile / 2) >> step;
    const bool upper = (lane & (2 * half)) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float keep = upper ? s[i + half] : s[i];
      const float send = upper ? s[i] : s[i + half];
      s[i] = keep + __shfl_xor_sync(0xffffffffu, send, 2 * half);
    }
  }
  const float sum = s[0] + __shfl_xor_sync(0xffffffffu, s[0], 1);
  if (lane % 2 == 0) out[lane / 2] = sum;
}

// L, in powers of two, of two channels.
__device__ __forceinline__ void sum_decays(const KdaParams<bf16>& p, const TileRows& rows, int head,
                                           int column, float2 (&sums)[kTile]) {
  const std::int64_t stride = static_cast<std::int64_t>(p.heads) * kHead;
  const std::int64_t c = static_cast<std::int64_t>(head) * kHead + column;
  const bf16* at = p.decay_logits + rows.first_row * stride + c;
  std::uint32_t x[kTile];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    x[r] = r < rows.count ? *reinterpret_cast<const std::uint32_t*>(at + r * stride) : 0;
  }
  const float2 bias = *reinterpret_cast<const float2*>(p.dt_bias + c);
  const float rate = expf(p.a_log[head]);
  float2 sum{0, 0};
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const float2 logits = unpack_bf16(x[r]);
    float g0, g1;
    if (p.lower_bound < 0) {
      g0 = p.lower_bound * sigmoid_fast(rate * (logits.x + bias.x));
      g1 = p.lower_bound * sigmoid_fast(rate * (logits.y + bias.y));
    } else {
      g0 = -rate * softplus(logits.x + bias.x);
      g1 = -rate * softplus(logits.y + bias.y);
    }
    sum.x += r < rows.count ? kLog2e * g0 : 0.0f;
    sum.y += r < rows.count ? kLog2e * g1 : 0.0f;
    sums[r] = sum;
  }
}

// x -> bf16(x * scale), as the prompt form rounds the norm.
__device__ __forceinline__ void normalize(std::uint32_t (&x)[kTile], const float* scales) {
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const float2 value = unpack_bf16(x[r]);
    x[r] = pack_bf16(value.x * scales[r], value.y * scales[r]);
  }
}

constexpr float kQueryScale = 0.08838834764831845f;  // 128^-1/2

// Left and right factors of the pairs, and the two matrices that meet the state.
template <bool kBounded>
__device__ __forceinline__ void store_factors(PrepareShared& s, BlockOperands& out,
                                              const std::uint32_t (&q)[kTile],
                                              const std::uint32_t (&k)[kTile],
                                              const float2 (&sums)[kTile], int tile, int column) {
  float2 before{0, 0}, after{0, 0};
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const float2 total = *reinterpret_cast<const float2*>(&s.total[i][column]);
    before.x += i < tile ? total.x : 0.0f;
    before.y += i < tile ? total.y : 0.0f;
    after.x += i > tile ? total.x : 0.0f;
    after.y += i > tile ? total.y : 0.0f;
  }
  before = {exp2_fast(before.x), exp2_fast(before.y)};
  after = {exp2_fast(after.x), exp2_fast(after.y)};
  const float2 last = sums[kTile - 1];
#pragma unroll
  for (int r = 0; r < kTile; ++r) {
    const int at = head_offset(tile * kTile + r, column);
    const float2 qr = unpack_bf16(q[r]), kr = unpack_bf16(k[r]);
    const float2 e{exp2_fast(sums[r].x), exp2_fast(sums[r].y)};
    const float2 ql{qr.x * kQueryScale * e.x, qr.y * kQueryScale * e.y};
    const float2 ahead{kr.x * exp2_fast(last.x - sums[r].x), kr.y * exp2_fast(last.y - sums[r].y)};
    store_pair(s.k_left + at, kr.x * e.x, kr.y * e.y);
    store_pair(s.q_left + at, ql.x, ql.y);
    store_pair(s.k_ahead + at, ahead.x, ahead.y);
    if constexpr (kBounded) {
      // At most 16 rows x 5: below 2^116.
      store_pair(s.k_right + at, kr.x * exp2_fast(-sums[r].x), kr.y * exp2_fast(-sums[r].y));
    }
    store_pair(out.q + at, ql.x * before.x, ql.y * before.y);
    store_pair(out.k + at, ahead.x * after.x, ahead.y * after.y);
  }
}

// A 16 x 16 product in two accumulators: rows of `left` against rows of `right`, over the channels.
struct PairTile {
  float4 c[2];
};

// The address that a lane gives to load_matrices for the 16 x 16 piece at (row, column).
__device__ __forceinline__ const bf16* head_piece(const bf16* matrix, int row, int column,
                                                  int lane) {
  return matrix + head_offset(row + (lane & 15), column + (lane >> 4) * 8);
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
#pragma unroll
  for (int d = 0; d < kHead; d += 16) {
    uint4 a = load_matrices(head_piece(left, row, d, lane));
    const uint4 b = load_matrices(head_piece(right, column, d, lane));
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

// A pair tile to its place: products of keys to A, of queries to P.
__device__ __forceinline__ void store_pairs(PrepareShared& s, BlockOperands& out,
                                            const PairTile& tile, bool is_query, int row,
                                            int column, int lane) {
  const int g = lane / 4, t = 2 * (lane % 4);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int c = column + 8 * h + t;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + g + 8 * half;
      float x = half == 0 ? tile.c[h].x : tile.c[h].z, y = half == 0 ? tile.c[h].y : tile.c[h].w;
      if (is_query) {
        store_pair(out.p + pair_offset(r, c), c <= r ? x : 0.0f, c + 1 <= r ? y : 0.0f);
      } else {
        x = c < r ? s.beta[r] * x : 0.0f;
        y = c + 1 < r ? s.beta[r] * y : 0.0f;
        *reinterpret_cast<float2*>(s.a + r * kPairStride + c) = {x, y};
      }
    }
  }
}

// Pairs inside a tile of the unbounded gate: they meet at the middle of halves, quarters, ... of
// the tile, so that each factor decays. Warp w makes rows of tile w / 2, keys or queries.
__device__ __forceinline__ PairTile pairs_by_halves(PrepareShared& s,
                                                    const std::uint32_t (&q)[kTile],
                                                    const std::uint32_t (&k)[kTile],
                                                    const float2 (&sums)[kTile], int column,
                                                    int warp, int lane) {
  const int tile = warp / 2, g = lane / 4, t = 2 * (lane % 4);
  PairTile result{};
#pragma unroll
  for (int step = 0; step < 5; ++step) {
    const int half = (kTile / 2) >> step;  // 0 at last: each row with itself
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      const int at = head_offset(tile * kTile + r, column);
      const float2 qr = unpack_bf16(q[r]), kr = unpack_bf16(k[r]);
      float2 e{1, 1};
      if (half > 0) {
        const float2 middle = sums[(r & ~(2 * half - 1)) + half - 1];
        const float sign = (r & half) != 0 ? 1.0f : -1.0f;
        e = {exp2_fast(sign * (sums[r].x - middle.x)), exp2_fast(sign * (sums[r].y - middle.y))};
      }
      store_pair(s.k_right + at, kr.x * e.x, kr.y * e.y);
      store_pair(s.q_left + at, qr.x * kQueryScale * e.x, qr.y * kQueryScale * e.y);
    }
    __syncthreads();
    const PairTile product = multiply_pairs(warp % 2 == 0 ? s.k_right : s.q_left, tile * kTile,
                                            s.k_right, tile * kTile, lane, nullptr, 0);
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
  return result;
}

}  // namespace baltoro::cuda
