// Second pass of the chunkwise KDA prefill: a block of threads walks the blocks of rows of one head
// of one sequence. A warp owns 16 value columns of the state for the whole walk, in f32
// accumulators, as S^T [16, Dk]. Transposed, every product of a step takes the state or the new
// values as its left operand straight from the accumulators, so warps never wait for each other.
#pragma once

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/kda.cuh"
#include "cuda/sm90/kda_block.cuh"

namespace baltoro::cuda {

// Blocks [begin, end) of the batch and their records, [blocks, heads].
struct BlockWindow {
  BlockRecord* records;
  std::int32_t begin;
  std::int32_t end;

  __device__ BlockRecord& record(int block, int head, int heads) const {
    return records[static_cast<std::int64_t>(block) * heads + head];
  }
};

constexpr int kStages = 3;

struct ScanShared {
  BlockOperands stages[kStages];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// Fragments of a warp: row g (and g + 8) is value column 16 tile + g of the head.
struct StateTile {
  float4 c[kHead / 8];  // S^T, 8 key channels each
};
struct RowTile {
  float4 c[kBlock / 8];  // [16 value columns, 64 rows], 8 rows each
};

// The state's element of key channel 8 n + 2 t, value column g: where a lane finds its own.
__device__ __forceinline__ float* lane_state(float* state, int tile, int lane) {
  return state + 2 * (lane % 4) * kHead + 16 * tile + lane / 4;
}
__device__ __forceinline__ void load_state(StateTile& s, const float* at) {
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    const float* from = at + 8 * n * kHead;
    s.c[n] = {from[0], from[kHead], from[8], from[kHead + 8]};
  }
}
__device__ __forceinline__ void store_state(const StateTile& s, float* at) {
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    float* to = at + 8 * n * kHead;
    to[0] = s.c[n].x;
    to[kHead] = s.c[n].y;
    to[8] = s.c[n].z;
    to[kHead + 8] = s.c[n].w;
  }
}

__device__ __forceinline__ uint4 as_left(const float4& c0, const float4& c1) {
  return {pack_bf16(c0.x, c0.y), pack_bf16(c0.z, c0.w), pack_bf16(c1.x, c1.y),
          pack_bf16(c1.z, c1.w)};
}

// N^T = U^T - S^T W^T and O^T = S^T Q^T.
__device__ __forceinline__ void meet_state(const BlockOperands& in, const StateTile& s, int lane,
                                           RowTile& values, RowTile& out) {
#pragma unroll
  for (int d = 0; d < kHead; d += 16) {
    const uint4 left = as_left(s.c[d / 8], s.c[d / 8 + 1]);
    const int place = head_offset(lane & 15, d + (lane >> 4) * 8);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const uint4 w = load_matrices(in.w + place + i * kTile * kHead);
      mma_bf16(values.c[2 * i], left, w.x, w.z);
      mma_bf16(values.c[2 * i + 1], left, w.y, w.w);
      const uint4 q = load_matrices(in.q + place + i * kTile * kHead);
      mma_bf16(out.c[2 * i], left, q.x, q.z);
      mma_bf16(out.c[2 * i + 1], left, q.y, q.w);
    }
  }
}

// O^T += N^T P^T;  S^T <- S^T diag(decay) + N^T K.
__device__ __forceinline__ void advance(const BlockOperands& in, const RowTile& values, int lane,
                                        StateTile& s, RowTile& out) {
  uint4 left[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) left[j] = as_left(values.c[2 * j], values.c[2 * j + 1]);
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    const float2 decay = *reinterpret_cast<const float2*>(in.decay + 8 * n + 2 * (lane % 4));
    s.c[n] = {s.c[n].x * decay.x, s.c[n].y * decay.y, s.c[n].z * decay.x, s.c[n].w * decay.y};
  }
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int d = 0; d < kHead; d += 16) {
      const uint4 k = load_matrices_transposed(
          in.k + head_offset(j * kTile + (lane & 15), d + (lane >> 4) * 8));
      mma_bf16(s.c[d / 8], left[j], k.x, k.y);
      mma_bf16(s.c[d / 8 + 1], left[j], k.z, k.w);
    }
#pragma unroll
    for (int i = j; i < kTiles; ++i) {
      const uint4 p =
          load_matrices(in.p + pair_offset(i * kTile + (lane & 15), j * kTile + (lane >> 4) * 8));
      mma_bf16(out.c[2 * i], left[j], p.x, p.z);
      mma_bf16(out.c[2 * i + 1], left[j], p.y, p.w);
    }
  }
}

// Rounded o into the head's columns of the rows; `at`: the block's first row, this warp's columns.
__device__ __forceinline__ void store_rows(const RowTile& out, bf16* at, std::int64_t stride,
                                           int count, int lane) {
#pragma unroll
  for (int n = 0; n < kBlock / 8; ++n) {
    const std::uint32_t low = transpose_matrix(pack_bf16(out.c[n].x, out.c[n].y));
    const std::uint32_t high = transpose_matrix(pack_bf16(out.c[n].z, out.c[n].w));
    const int row = 8 * n + lane / 4;
    if (row < count) {
      auto* to = reinterpret_cast<std::uint32_t*>(at + row * stride + 2 * (lane % 4));
      to[0] = low;
      to[4] = high;
    }
  }
}

// Grid: (head, sequence, group of kWarps x 16 value columns).
template <int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 1)
    scan_blocks(KdaParams<bf16> p, BlockWindow window) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char raw[];
  ScanShared& s = *reinterpret_cast<ScanShared*>(raw);
  const int head = static_cast<int>(blockIdx.x), sequence_index = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int begin = max(p.first_block[sequence_index], window.begin);
  const int end = min(p.first_block[sequence_index + 1], window.end);
  if (begin >= end) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&s.full[i], 1);
      barrier_init(&s.empty[i], kWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();
  // One thread brings the records, as soon as every warp is through with a stage.
  const auto bring = [&](int i) {
    const int stage = i % kStages;
    if (i >= kStages) barrier_wait(&s.empty[stage], (i / kStages + 1) & 1);
    barrier_expect(&s.full[stage], sizeof(BlockOperands));
    bulk_load(&s.stages[stage], &window.record(begin - window.begin + i, head, p.heads).operands,
              sizeof(BlockOperands), &s.full[stage]);
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < min(kStages - 1, end - begin); ++i) bring(i);
  }
  const DeviceSequence sequence = p.sequences[sequence_index];
  const int tile = static_cast<int>(blockIdx.z) * kWarps + warp;
  const std::int64_t stride = static_cast<std::int64_t>(p.heads) * kHead;
  float* live = lane_state(head_state(p, sequence.state_slot, head), tile, lane);
  StateTile state;
  load_state(state, live);
  for (int i = 0; i < end - begin; ++i) {
    const int stage = i % kStages;
    if (threadIdx.x == 0 && i + kStages - 1 < end - begin) bring(i + kStages - 1);
    __syncwarp();
    const DeviceBlock block = p.blocks[begin + i];
    const BlockRecord& record = window.record(begin - window.begin + i, head, p.heads);
    RowTile values, out{};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const uint4 u = record.u[tile][j][lane];
      const float2 a = unpack_bf16(u.x), b = unpack_bf16(u.y);
      const float2 c = unpack_bf16(u.z), d = unpack_bf16(u.w);
      values.c[2 * j] = {a.x, a.y, b.x, b.y};
      values.c[2 * j + 1] = {c.x, c.y, d.x, d.y};
    }
    barrier_wait(&s.full[stage], (i / kStages) & 1);
    meet_state(s.stages[stage], state, lane, values, out);
    advance(s.stages[stage], values, lane, state, out);
    __syncwarp();
    if (lane == 0) barrier_arrive(&s.empty[stage]);
    store_rows(out, p.out + block.first_row * stride + head * kHead + 16 * tile, stride,
               block.num_rows, lane);
    if (block.is_last_full && sequence.boundary_slot >= 0) {
      store_state(state, lane_state(head_state(p, sequence.boundary_slot, head), tile, lane));
    }
  }
  store_state(state, live);
#endif
}

}  // namespace baltoro::cuda
