// Second pass of the chunkwise KDA prefill: a block of threads walks the blocks of rows of one head
// of one sequence. A warpgroup owns 64 value columns of the state for the whole walk, in f32
// accumulators, as S^T [64, Dk]. Transposed, every product of a step takes the state or the new
// values as its left operand straight from the accumulators, so no data passes between threads.
#pragma once

#include <type_traits>

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/wgmma.cuh"
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

struct alignas(1024) ScanStage {
  BlockRecord record;
};
struct ScanShared {
  ScanStage stages[kStages];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};
static_assert(sizeof(ScanShared) <= 227 << 10);

// Fragments of a warp: row g (and g + 8) is value column 16 tile + g of the head.
struct StateTile {
  float4 c[kHead / 8];  // S^T, 8 key channels each
};
struct RowTile {
  float4 c[kBlock / 8];  // [16 value columns, 64 rows], 8 rows each
};

// The state's element of key channel 8 n + 2 t, value column g: where a lane finds its own.
template <typename S>
__device__ __forceinline__ S* lane_state(S* state, int tile, int lane) {
  return state + 2 * (lane % 4) * kHead + 16 * tile + lane / 4;
}
template <typename S>
__device__ __forceinline__ void load_state(StateTile& s, const S* at) {
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    const S* from = at + 8 * n * kHead;
    s.c[n] = {to_f32(from[0]), to_f32(from[kHead]), to_f32(from[8]), to_f32(from[kHead + 8])};
  }
}
template <typename S>
__device__ __forceinline__ void store_state(const StateTile& s, S* at) {
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    S* to = at + 8 * n * kHead;
    to[0] = from_f32<S>(s.c[n].x);
    to[kHead] = from_f32<S>(s.c[n].y);
    to[8] = from_f32<S>(s.c[n].z);
    to[kHead + 8] = from_f32<S>(s.c[n].w);
  }
}
// As the pool keeps it: at the end of a block, so that a split prompt gives the same bits.
template <typename S>
__device__ __forceinline__ void round_state(StateTile& s) {
  if constexpr (!std::is_same_v<S, float>) {
#pragma unroll
    for (float4& c : s.c) {
      c = {round_as<S>(c.x), round_as<S>(c.y), round_as<S>(c.z), round_as<S>(c.w)};
    }
  }
}

__device__ __forceinline__ uint4 as_left(const float4& c0, const float4& c1) {
  return {pack_bf16(c0.x, c0.y), pack_bf16(c0.z, c0.w), pack_bf16(c1.x, c1.y),
          pack_bf16(c1.z, c1.w)};
}

// The products of a step with the state before it: values, which holds U^T, becomes
// N^T = U^T - S^T W^T, out = S^T Q^T, and the state decays. Started, not waited for; by a warpgroup, on
// 64 value columns.
__device__ __forceinline__ void start_step(const BlockRecord& in, int lane, StateTile& s,
                                           uint4 (&before)[kHead / 16], RowTile& values,
                                           RowTile& out) {
#pragma unroll
  for (int i = 0; i < kHead / 16; ++i) before[i] = as_left(s.c[2 * i], s.c[2 * i + 1]);
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    const float2 decay = *reinterpret_cast<const float2*>(in.decay + 8 * n + 2 * (lane % 4));
    s.c[n] = {s.c[n].x * decay.x, s.c[n].y * decay.y, s.c[n].z * decay.x, s.c[n].w * decay.y};
  }
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kHead / 16; ++i) {
    wgmma_n64(values.c, before[i], panel_descriptor(in.w + i / 4 * kPanel + i % 4 * 16));
  }
  wgmma_commit();
#pragma unroll
  for (int i = 0; i < kHead / 16; ++i) {
    wgmma_n64(out.c, before[i], panel_descriptor(in.q + i / 4 * kPanel + i % 4 * 16));
  }
  wgmma_commit();
}

// The products with the new values: O^T += N^T P^T;  S^T += N^T K.
__device__ __forceinline__ void finish_step(const BlockRecord& in, StateTile& s, RowTile& values,
                                            RowTile& out) {
  wgmma_wait<1>();
  uint4 news[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) news[j] = as_left(values.c[2 * j], values.c[2 * j + 1]);
  wgmma_fence();
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    wgmma_n128_transposed(s.c, news[j],
                          transposed_descriptor(in.k + j * kTile * 64, kPanel * sizeof(bf16)));
  }
  wgmma_commit();
#pragma unroll
  for (int j = 0; j < kTiles; ++j) wgmma_n64(out.c, news[j], panel_descriptor(in.p + 16 * j));
  wgmma_commit();
  wgmma_wait<0>();
}

// Two columns each of rows 8 n + lane / 4: columns 2 (lane % 4), +1 of the warp's 16, and 8 on.
struct HeldRows {
  std::uint32_t low[kBlock / 8], high[kBlock / 8];
};
__device__ __forceinline__ void hold_rows(const RowTile& out, HeldRows& held) {
#pragma unroll
  for (int n = 0; n < kBlock / 8; ++n) {
    held.low[n] = transpose_matrix(pack_bf16(out.c[n].x, out.c[n].y));
    held.high[n] = transpose_matrix(pack_bf16(out.c[n].z, out.c[n].w));
  }
}
// `at`: row lane / 4 of the block, the lane's columns; `count`: of rows that exist.
__device__ __forceinline__ void store_held(const HeldRows& held, bf16* at, std::int64_t stride,
                                           int count, int lane) {
#pragma unroll
  for (int n = 0; n < kBlock / 8; ++n) {
    if (8 * n + lane / 4 < count) {
      auto* to = reinterpret_cast<std::uint32_t*>(at + 8 * n * stride);
      to[0] = held.low[n];
      to[4] = held.high[n];
    }
  }
}

// Conv history of a head in the live and boundary slots, after the sequence's first block has read the
// old one. By a block of threads.
__device__ __forceinline__ void store_histories(const KdaParams<bf16>& p,
                                                const DeviceSequence& sequence, int head) {
  const std::int64_t end = sequence.start_pos + sequence.num_rows;
  const std::int64_t boundary = end / kBlockTokens * kBlockTokens - sequence.start_pos;
  for (int c = static_cast<int>(threadIdx.x); c < 3 * kHead; c += static_cast<int>(blockDim.x)) {
    const ConvChannel<bf16> channel = conv_channel(p, head, c);
    if (sequence.boundary_slot >= 0 && boundary > 0) {
      store_history(p, sequence, channel, boundary, sequence.boundary_slot);
    }
    store_history(p, sequence, channel, sequence.num_rows, sequence.state_slot);
  }
}

// Grid: (head, sequence, group of kWarps x 16 value columns). Leaves o before its norm in p.out.
template <int kWarps, typename S>
__global__ void __launch_bounds__(32 * kWarps, 1)
    scan_blocks(KdaParams<bf16> p, BlockWindow window) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char raw[];
  ScanShared& s = *reinterpret_cast<ScanShared*>(raw);
  const int head = static_cast<int>(blockIdx.x), sequence_index = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int begin = max(p.first_block[sequence_index], window.begin);
  const int end = min(p.first_block[sequence_index + 1], window.end);
  start_next_kernel();
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
    barrier_expect(&s.full[stage], sizeof(BlockRecord));
    bulk_load(&s.stages[stage], &window.record(begin - window.begin + i, head, p.heads),
              sizeof(BlockRecord), &s.full[stage]);
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < min(kStages - 1, end - begin); ++i) bring(i);
  }
  const DeviceSequence sequence = p.sequences[sequence_index];
  const int tile = static_cast<int>(blockIdx.z) * kWarps + warp;
  const std::int64_t stride = static_cast<std::int64_t>(p.heads) * kHead;
  S* live = lane_state(head_state<S>(p, sequence.state_slot, head), tile, lane);
  StateTile state;
  load_state(state, live);
  const std::int64_t lane_at = lane / 4 * stride + head * kHead + 16 * tile + 2 * (lane % 4);
  // Rows of the step before, which are stored beside the products of this one.
  HeldRows rows{};
  DeviceBlock rows_block{};
  const auto finish_rows = [&] {
    store_held(rows, p.out + rows_block.first_row * stride + lane_at, stride, rows_block.num_rows,
               lane);
  };
  for (int i = 0; i < end - begin; ++i) {
    const int stage = i % kStages;
    if (threadIdx.x == 0 && i + kStages - 1 < end - begin) bring(i + kStages - 1);
    __syncwarp();
    const DeviceBlock block = p.blocks[begin + i];
    const BlockRecord& record = s.stages[stage].record;
    RowTile values, out{};
    uint4 before[kHead / 16];
    barrier_wait(&s.full[stage], (i / kStages) & 1);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const uint4 u = record.u[tile][j][lane];
      const float2 a = unpack_bf16(u.x), b = unpack_bf16(u.y);
      const float2 c = unpack_bf16(u.z), d = unpack_bf16(u.w);
      values.c[2 * j] = {a.x, a.y, b.x, b.y};
      values.c[2 * j + 1] = {c.x, c.y, d.x, d.y};
    }
    start_step(record, lane, state, before, values, out);
    finish_rows();
    finish_step(record, state, values, out);
    round_state<S>(state);
    __syncwarp();
    if (lane == 0) barrier_arrive(&s.empty[stage]);
    rows_block = block;
    hold_rows(out, rows);
    if (block.is_last_full && sequence.boundary_slot >= 0) {
      store_state(state, lane_state(head_state<S>(p, sequence.boundary_slot, head), tile, lane));
    }
  }
  finish_rows();
  store_state(state, live);
  if (end == p.first_block[sequence_index + 1] && blockIdx.z == 0) {
    store_histories(p, sequence, head);
  }
#endif
}

}  // namespace baltoro::cuda
