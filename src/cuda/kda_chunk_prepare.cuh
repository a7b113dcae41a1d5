// First pass of the chunkwise KDA for every head: a block of threads makes the record of one (block
// of rows, head).
#pragma once

#include "cuda/kda_chunk_pairs.cuh"

namespace baltoro::cuda {

constexpr int kChunkThreads = 32 * TilePairs::kWarps;

// What the steps below work on.
template <typename T>
struct ChunkInput {
  const KdaParams<T>& p;
  const ChunkWindow& window;
  const ChunkRecord& record;
  const DeviceBlock& block;
  const DeviceSequence& sequence;
  int head;
  int tiles;

  __device__ std::int64_t row_of_sequence(int row) const {
    return block.first_row - sequence.first_row + row;
  }
};

// Conv and SiLU of 16 rows of a channel. kWidth: taps, or 0 for p.width of them.
template <int kWidth, typename T>
__device__ __forceinline__ void convolve_tile(const ChunkInput<T>& in,
                                              const ConvChannel<T>& channel, int tile,
                                              float (&y)[kTileRows]) {
  const std::int64_t first = in.row_of_sequence(tile * kTileRows);
  const int count = min(kTileRows, in.block.num_rows - tile * kTileRows);
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) y[r] = 0;
  if constexpr (kWidth > 0) {
    float x[kTileRows + kWidth - 1];
#pragma unroll
    for (int i = 0; i < kTileRows + kWidth - 1; ++i) {
      const int row = i - (kWidth - 1);
      x[i] = row < count ? conv_input(in.p, in.sequence, channel, first + row) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) y[r] = fmaf(channel.taps[j], x[r + j], y[r]);
    }
  } else {
    for (int j = 0; j < in.p.width; ++j) {
      const std::int64_t start = first - (in.p.width - 1) + j;
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) {
        if (r >= count) continue;
        y[r] = fmaf(channel.taps[j], conv_input(in.p, in.sequence, channel, start + r), y[r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) y[r] = r < count ? round_as<T>(silu(y[r])) : 0.0f;
}

// Rows of q and k before their norm into the record's matrices of that name, beta v into u.
template <int kWidth, typename T>
__device__ void convolve_chunk(const ChunkInput<T>& in, const PairShared& s) {
  const int dk = in.p.dk, channels = 2 * dk + in.window.values;
  for (int i = static_cast<int>(threadIdx.x); i < in.tiles * channels; i += kChunkThreads) {
    const int tile = i / channels, c = i % channels;
    const bool is_value = c >= 2 * dk;
    float y[kTileRows] = {};
    if (c < 2 * dk + in.p.dv) {
      convolve_tile<kWidth>(in, conv_channel(in.p, in.head, c), tile, y);
    }
    const int stride = is_value ? in.window.values : in.window.keys;
    float* to = (c < dk     ? in.record.q + c
                 : is_value ? in.record.u + c - 2 * dk
                            : in.record.k + c - dk) +
                tile * kTileRows * stride;
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      to[r * stride] = is_value ? s.beta[tile * kTileRows + r] * y[r] : y[r];
    }
  }
}

// Scales of the L2 norms, eight lanes a row; 0 where no row is.
template <typename T>
__device__ void norm_chunk(const ChunkInput<T>& in, PairShared& s) {
  constexpr int kLanes = 8;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int i = static_cast<int>(threadIdx.x) / kLanes; i < 2 * kChunkRows;
       i += kChunkThreads / kLanes) {
    const int row = i % kChunkRows;
    const bool is_row = row < in.block.num_rows;
    const float* x = (i < kChunkRows ? in.record.q : in.record.k) + row * in.window.keys;
    float squares = 0;
    if (is_row) {
#pragma unroll 8
      for (int d = lane; d < in.p.dk; d += kLanes) squares = fmaf(x[d], x[d], squares);
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    }
    if (lane == 0) {
      s.norms[i / kChunkRows][row] = is_row ? 1.0f / sqrtf(squares + kL2NormEps) : 0.0f;
    }
  }
}

// q, k and decays of channels [first, first + 64).
template <typename T>
__device__ void load_channels(const ChunkInput<T>& in, int first, PairShared& s) {
  constexpr int kTurn = kChunkThreads / kChannels;  // rows at once
  constexpr int kAhead = 4;                         // of them, asked for together
  const int c = static_cast<int>(threadIdx.x) % kChannels, d = first + c;
  const bool is_channel = d < in.p.dk;
  const float rate = expf(in.p.a_log[in.head]);
  const float q_scale = 1.0f / sqrtf(static_cast<float>(in.p.dk));
  const int decays = in.p.decay_per_head ? 1 : in.p.dk;
  const std::int64_t gate =
      static_cast<std::int64_t>(in.head) * decays + (in.p.decay_per_head || !is_channel ? 0 : d);
  const float bias = in.p.dt_bias[gate];
  const int end = in.tiles * kTileRows;
  for (int start = static_cast<int>(threadIdx.x) / kChannels; start < end;
       start += kAhead * kTurn) {
    float q[kAhead], k[kAhead], z[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int row = start + i * kTurn;
      q[i] = k[i] = z[i] = 0;
      if (row >= in.block.num_rows || !is_channel) continue;
      q[i] = in.record.q[row * in.window.keys + d];
      k[i] = in.record.k[row * in.window.keys + d];
      const std::int64_t logits = static_cast<std::int64_t>(in.block.first_row + row) * in.p.heads;
      z[i] = to_f32(in.p.decay_logits[logits * decays + gate]);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int row = start + i * kTurn;
      if (row >= end) break;
      const bool is_inside = row < in.block.num_rows && is_channel;
      const int at = row * kRowStride + c;
      s.q[at] = round_as<T>(q[i] * s.norms[0][row]) * q_scale;
      s.k[at] = round_as<T>(k[i] * s.norms[1][row]);
      s.decay[at] = is_inside ? expf(log_decay(z[i] + bias, rate, in.p.lower_bound)) : 1.0f;
    }
  }
}

// The factors of pairs of different tiles, in place: a thread has a channel of a tile.
__device__ __forceinline__ void scan_tile(PairShared& s, int tile, int c) {
  const int at = tile * kTileRows * kRowStride + c;
  float decays[kTileRows];
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) decays[r] = s.decay[at + r * kRowStride];
  float running = 1;
#pragma unroll
  for (int r = kTileRows - 1; r >= 0; --r) {
    s.decay[at + r * kRowStride] = s.k[at + r * kRowStride] * running;
    running *= decays[r];
  }
  running = 1;
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    running *= decays[r];
    s.q[at + r * kRowStride] *= running;
    s.k[at + r * kRowStride] *= running;
  }
  s.total[tile][c] = running;
}

// What meets the state: exp(G) Q, exp(G_last - G) K and the right side -beta exp(G) K of W.
template <typename T>
__device__ void store_channels(const ChunkInput<T>& in, int first, const PairShared& s) {
  const int c = static_cast<int>(threadIdx.x) % kChannels;
  float before[kChunkTiles], after[kChunkTiles], all = 1;
#pragma unroll
  for (int tile = 0; tile < kChunkTiles; ++tile) {
    before[tile] = all;
    if (tile < in.tiles) all *= s.total[tile][c];
  }
  float behind = 1;
#pragma unroll
  for (int tile = kChunkTiles - 1; tile >= 0; --tile) {
    after[tile] = behind;
    if (tile < in.tiles) behind *= s.total[tile][c];
  }
  const int start = static_cast<int>(threadIdx.x) / kChannels;
  if (start == 0) in.record.decay[first + c] = all;
#pragma unroll
  for (int tile = 0; tile < kChunkTiles; ++tile) {
    if (tile >= in.tiles) break;
    for (int row = tile * kTileRows + start; row < (tile + 1) * kTileRows;
         row += kChunkThreads / kChannels) {
      const int from = row * kRowStride + c, to = row * in.window.keys + first + c;
      in.record.q[to] = s.q[from] * before[tile];
      in.record.w[to] = -s.beta[row] * (s.k[from] * before[tile]);
      in.record.k[to] = s.decay[from] * after[tile];
    }
  }
}

// (I + A) x = right side for a column of w or u in place, tile by tile. `a`: A transposed.
__device__ __forceinline__ void solve_column(const float* a, int tiles, float* x, int stride) {
  const auto subtract = [](float(&sums)[kTileRows], const float* column, float value) {
#pragma unroll
    for (int i = 0; i < kTileRows; i += 4) {
      const float4 factor = load4(column + i);
      sums[i] = fmaf(-factor.x, value, sums[i]);
      sums[i + 1] = fmaf(-factor.y, value, sums[i + 1]);
      sums[i + 2] = fmaf(-factor.z, value, sums[i + 2]);
      sums[i + 3] = fmaf(-factor.w, value, sums[i + 3]);
    }
  };
  const auto load_tile = [&](int tile, float(&to)[kTileRows]) {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) to[i] = x[(tile * kTileRows + i) * stride];
  };
  for (int tile = 0; tile < tiles; ++tile) {
    const int first = tile * kTileRows;
    float sums[kTileRows];
    load_tile(tile, sums);
#pragma unroll 1
    for (int earlier = 0; earlier < tile; ++earlier) {
      float solved[kTileRows];
      load_tile(earlier, solved);
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) {
        subtract(sums, a + (earlier * kTileRows + r) * kRowStride + first, solved[r]);
      }
    }
    // On and above its diagonal A is zero.
#pragma unroll
    for (int r = 0; r < kTileRows - 1; ++r) {
      subtract(sums, a + (first + r) * kRowStride + first, sums[r]);
    }
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) x[(first + i) * stride] = sums[i];
  }
}

// Grid: (head, block - window.begin).
template <typename T>
__global__ void __launch_bounds__(kChunkThreads, 2)
    prepare_chunks(KdaParams<T> p, ChunkWindow window) {
  extern __shared__ __align__(16) unsigned char raw[];
  PairShared& s = *reinterpret_cast<PairShared*>(raw);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int head = static_cast<int>(blockIdx.x);
  const int index = window.begin + static_cast<int>(blockIdx.y);
  const DeviceBlock block = p.blocks[index];
  const DeviceSequence sequence = p.sequences[block.sequence];
  const ChunkRecord record = window.record(index, head, p.heads);
  const ChunkInput<T> in{p, window, record, block, sequence, head, tiles_of(block)};
  if (thread < kChunkRows) {
    const std::int64_t at = static_cast<std::int64_t>(block.first_row + thread) * p.heads + head;
    s.beta[thread] = thread < block.num_rows ? sigmoid(to_f32(p.beta_logits[at])) : 0.0f;
  }
  __syncthreads();
  if (p.width == 4) {
    convolve_chunk<4>(in, s);
  } else {
    convolve_chunk<0>(in, s);
  }
  __syncthreads();
  norm_chunk(in, s);
  InsidePairs inside(warp, lane);
  TilePairs between(warp, lane);
  const bool has_inside = warp < InsidePairs::kWarps && inside.tile() < in.tiles;
  const bool has_between = between.tile() < in.tiles;
  for (int first = 0; first < window.keys; first += kChannels) {
    __syncthreads();
    load_channels(in, first, s);
    __syncthreads();
    if (has_inside) inside.add(s);
    __syncthreads();
    if (thread < in.tiles * kChannels) scan_tile(s, thread / kChannels, thread % kChannels);
    __syncthreads();
    store_channels(in, first, s);
    if (has_between) between.add(s);
  }
  __syncthreads();
  if (has_inside) inside.store(s.beta, s.k, record.p);
  if (has_between) between.store(s.beta, s.k, record.p);
  __syncthreads();
  for (int c = thread; c < window.keys + window.values; c += kChunkThreads) {
    const bool is_key = c < window.keys;
    solve_column(s.k, in.tiles, is_key ? record.w + c : record.u + c - window.keys,
                 is_key ? window.keys : window.values);
  }
}

}  // namespace baltoro::cuda
