// Second pass of the chunkwise KDA for every head: a block of threads has some value columns of a
// (sequence, head) and walks over its records, the state in shared memory. Each sum has one order,
// whatever the number of columns.
#pragma once

#include "cuda/device/async_copy.cuh"
#include "cuda/kda_chunk_pairs.cuh"

namespace baltoro::cuda {

constexpr int kWalkThreads = 256;
// Records come in pieces: 32 channels of W and Q, then P, then 64 channels of K.
constexpr int kPieceStride = 36;  // of rows of 32 floats, whose float4 then fall into other banks
constexpr int kPieceFloats = 2 * kChunkRows * kPieceStride;
static_assert(kPieceFloats >= kChunkRows * kRowStride);
// Pieces in shared memory: more where a step is short, for it waits for them.
constexpr int num_pieces(int lane_columns) { return lane_columns == 4 ? 3 : 4; }

constexpr std::size_t walk_shared_bytes(int keys, int lane_columns) {
  return sizeof(float) * static_cast<std::size_t>(num_pieces(lane_columns) * kPieceFloats +
                                                  (keys + kChunkRows) * 8 * lane_columns);
}

// What the walk needs of a KdaParams.
struct ChunkStates {
  void* state;
  const DeviceSequence* sequences;
  const DeviceBlock* blocks;
  const std::int32_t* first_block;
  int heads;
  int dk;
  int dv;

  template <typename S>
  __device__ S* of(std::int64_t slot, int head) const {
    return static_cast<S*>(state) + (slot * heads + head) * dk * dv;
  }
};

// Floats that lie side by side.
template <int kColumns>
struct alignas(sizeof(float) * kColumns) Columns {
  float at[kColumns];

  __device__ static __forceinline__ Columns load(const float* from) {
    return *reinterpret_cast<const Columns*>(from);
  }
  __device__ __forceinline__ void store(float* to) const {
    *reinterpret_cast<Columns*>(to) = *this;
  }
  __device__ __forceinline__ void add(float factor, const Columns& x) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) at[c] = fmaf(factor, x.at[c], at[c]);
  }
};

// Brings the pieces of the records of blocks [block, end) in turn, into a ring of kPieces.
template <int kPieces>
struct PieceReader {
  const ChunkWindow& window;
  const DeviceBlock* blocks;
  int head, heads;
  int block, end;
  int piece = 0;
  int slot = 0;

  __device__ int pieces() const { return window.keys / 32 + 1 + window.keys / 64; }

  // Asks for the next piece, if there is one; one group of copies in any case.
  __device__ __forceinline__ void next(float* ring) {
    if (block < end) {
      copy(ring + slot * kPieceFloats);
      if (++piece == pieces()) {
        piece = 0;
        ++block;
      }
      slot = (slot + 1) % kPieces;
    }
    end_copies();
  }

 private:
  __device__ __forceinline__ void copy(float* to) const {
    const ChunkRecord record = window.record(block, head, heads);
    const int rows = tiles_of(blocks[block]) * kTileRows, inputs = window.keys / 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * kWalkThreads;
      const int part = item / 512;  // of W, of Q; columns [0, 32), [32, 64) of P
      const int row = item / 8 % kChunkRows, column = item % 8 * 4;
      if (piece < inputs) {
        const float* from = part == 0 ? record.w : record.q;
        copy_async(to + (part * kChunkRows + row) * kPieceStride + column,
                   from + row * window.keys + piece * 32 + column, row < rows);
      } else if (piece == inputs) {
        copy_async(to + (part * kChunkRows + row) * kPieceStride + column,
                   record.p + row * kChunkRows + part * 32 + column, row < rows);
      } else {
        const int key_row = item / 16, key = item % 16 * 4;
        copy_async(to + key_row * kRowStride + key,
                   record.k + key_row * window.keys + (piece - inputs - 1) * kChannels + key,
                   key_row < rows);
      }
    }
  }
};

// sums[r] += left[4 r rows on] . right over kDepth rows of `right`.
template <int kDepth, int kColumns>
__device__ __forceinline__ void multiply_rows(const float* left, const float* right,
                                              Columns<kColumns> (&sums)[4]) {
#pragma unroll(kColumns == 4 ? 2 : 4)
  for (int d = 0; d < kDepth; d += 4) {
    float4 a[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) a[r] = load4(left + 4 * r * kPieceStride + d);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto b = Columns<kColumns>::load(right + (d + e) * 8 * kColumns);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sums[r].add(e == 0 ? a[r].x : e == 1 ? a[r].y : e == 2 ? a[r].z : a[r].w, b);
      }
    }
  }
}

// Grid: (head, sequence, group of 8 kColumns value columns). Leaves o before its norm in the records.
// In the products of rows, warp w has rows [16 w, +16) of W or (w >= 4) of Q, a lane four of them
// and kColumns columns; in the update of the state a thread has two key channels of 64.
template <typename S, int kColumns>
__global__ void __launch_bounds__(kWalkThreads, 2)
    walk_chunks(ChunkStates states, ChunkWindow window) {
  constexpr int kAll = 8 * kColumns, kPieces = num_pieces(kColumns);
  extern __shared__ __align__(16) unsigned char raw[];
  float* ring = reinterpret_cast<float*>(raw);
  float* state = ring + kPieces * kPieceFloats;  // [keys, kAll]
  float* values = state + window.keys * kAll;    // [64, kAll] N
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int head = static_cast<int>(blockIdx.x), sequence_index = static_cast<int>(blockIdx.y);
  const int begin = max(states.first_block[sequence_index], window.begin);
  const int end = min(states.first_block[sequence_index + 1], window.end);
  if (begin >= end) return;
  const DeviceSequence sequence = states.sequences[sequence_index];
  const int first = static_cast<int>(blockIdx.z) * kAll;
  const auto copy_state = [&](std::int64_t slot, bool is_store) {
    S* pool = states.of<S>(slot, head);
    for (int i = thread; i < window.keys * kAll; i += kWalkThreads) {
      const int d = i / kAll, c = first + i % kAll;
      const bool is_inside = d < states.dk && c < states.dv;
      if (!is_store) state[i] = is_inside ? to_f32(pool[d * states.dv + c]) : 0.0f;
      if (is_store && is_inside) pool[d * states.dv + c] = from_f32<S>(state[i]);
    }
  };
  PieceReader<kPieces> reader{window, states.blocks, head, states.heads, begin, end};
  int slot = 0;
  // The next piece, when all threads are through with the one before it.
  const auto piece = [&] {
    wait_copies<kPieces - 2>();
    __syncthreads();
    reader.next(ring);
    const float* at = ring + slot * kPieceFloats;
    slot = (slot + 1) % kPieces;
    return at;
  };
  for (int i = 0; i < kPieces - 1; ++i) reader.next(ring);
  copy_state(sequence.state_slot, false);
  const bool is_query = warp >= kChunkTiles;
  const int tile = warp % kChunkTiles, column = lane % 8 * kColumns;
  const int left = (warp * kTileRows + lane / 8) * kPieceStride;
  const int row = tile * kTileRows + lane / 8;  // and 4, 8, 12 rows on
  for (int index = begin; index < end; ++index) {
    const DeviceBlock block = states.blocks[index];
    const ChunkRecord record = window.record(index, head, states.heads);
    const bool is_tile = tile < tiles_of(block);
    float* u = record.u + row * window.values + first + column;
    const float* decays = record.decay + thread / 8 * 2;
    float2 decay = *reinterpret_cast<const float2*>(decays);
    Columns<kColumns> held[4], sums[4] = {};
    if (is_tile && !is_query) {
#pragma unroll
      for (int r = 0; r < 4; ++r) held[r] = Columns<kColumns>::load(u + 4 * r * window.values);
    }
    for (int d = 0; d < window.keys; d += 32) {
      const float* at = piece();
      if (is_tile) multiply_rows<32>(at + left, state + d * kAll + column, sums);
    }
    if (is_tile && !is_query) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        held[r].add(1.0f, sums[r]);
        held[r].store(values + (row + 4 * r) * kAll + column);
      }
    }
    const float* pairs = piece();
    if (is_tile && is_query) {
      for (int k = 0; k <= tile; ++k) {
        const float* from = pairs + (k / 2 * kChunkRows + row) * kPieceStride + k % 2 * kTileRows;
        multiply_rows<kTileRows>(from, values + k * kTileRows * kAll + column, sums);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) sums[r].store(u + 4 * r * window.values);
    }
    for (int d = 0; d < window.keys; d += kChannels) {
      const float* keys = piece() + thread / 8 * 2;
      float* to = state + (d + thread / 8 * 2) * kAll + column;
      auto low = Columns<kColumns>::load(to), high = Columns<kColumns>::load(to + kAll);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        low.at[c] *= decay.x;
        high.at[c] *= decay.y;
      }
      if (d + kChannels < window.keys) {
        decay = *reinterpret_cast<const float2*>(decays + d + kChannels);
      }
#pragma unroll 8
      for (int r = 0; r < tiles_of(block) * kTileRows; ++r) {
        const float2 k = *reinterpret_cast<const float2*>(keys + r * kRowStride);
        const auto n = Columns<kColumns>::load(values + r * kAll + column);
        low.add(k.x, n);
        high.add(k.y, n);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        low.at[c] = round_as<S>(low.at[c]);
        high.at[c] = round_as<S>(high.at[c]);
      }
      low.store(to);
      high.store(to + kAll);
    }
    if (block.is_last_full != 0 && sequence.boundary_slot >= 0) {
      __syncthreads();
      copy_state(sequence.boundary_slot, true);
    }
  }
  __syncthreads();
  copy_state(sequence.state_slot, true);
}

}  // namespace baltoro::cuda
