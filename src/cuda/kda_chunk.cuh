// What the passes of the chunkwise KDA for every head hand over, one record a (block of 64 rows,
// head), all in f32. The algebra is that of sm90/kda_block.cuh; here every decay between two rows is
// a product of the rows' decays, which lie in [0, 1]: no exponent of a cumulated gate is formed.
#pragma once

#include <cstdint>

#include "cuda/kda.cuh"
#include "ops/batch.h"

namespace baltoro::cuda {

constexpr int kChunkRows = 64;  // kBlockTokens
constexpr int kTileRows = 16;   // of a chunk: tiles behind the last row are never touched
constexpr int kChunkTiles = kChunkRows / kTileRows;
constexpr int kChannels = 64;  // key channels that the first pass has in shared memory at once
static_assert(kChunkRows == kBlockTokens);

// Channels beyond the head's are zero. Of a block with fewer rows the first whole tiles are valid.
struct ChunkRecord {
  float* w;      // [64, keys] -T (exp(G) K)
  float* q;      // [64, keys] exp(G) Q
  float* k;      // [64, keys] exp(G_last - G) K
  float* p;      // [64, 64] P; tiles above the diagonal are not valid
  float* u;      // [64, values] T V, and O once the walk has passed
  float* decay;  // [keys] exp(G_last)
};

// Records of blocks [begin, end) of a batch.
struct ChunkWindow {
  float* records;
  std::int32_t begin;
  std::int32_t end;
  int keys;    // Dk, up to a multiple of 64
  int values;  // Dv, up to a multiple of 32

  __host__ __device__ std::int64_t record_floats() const {
    return 3 * kChunkRows * keys + kChunkRows * kChunkRows + kChunkRows * values + keys;
  }
  __device__ ChunkRecord record(int block, int head, int heads) const {
    ChunkRecord r;
    r.w = records + (static_cast<std::int64_t>(block - begin) * heads + head) * record_floats();
    r.q = r.w + kChunkRows * keys;
    r.k = r.q + kChunkRows * keys;
    r.p = r.k + kChunkRows * keys;
    r.u = r.p + kChunkRows * kChunkRows;
    r.decay = r.u + kChunkRows * values;
    return r;
  }
};

__device__ __forceinline__ int tiles_of(const DeviceBlock& block) {
  return (block.num_rows + kTileRows - 1) / kTileRows;
}

}  // namespace baltoro::cuda
