// Conv and SiLU of one block of rows by matrix units. Part of the first pass (kda_prepare.cuh).
//
// A product of 16 rows by 16 takes rows r - 3 and r - 2 of 8 channels as its left operand, side by
// side, and two diagonal matrices of taps as its right one; a second takes rows r - 1 and r. Inputs
// are bf16 as they are; taps are the sum of two bf16, which leaves 2^-17 of them.
#pragma once

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/kda.cuh"
#include "cuda/sm90/kda_block.cuh"

namespace baltoro::cuda {

constexpr int kPrepareThreads = 256;
constexpr int kBefore = 3;                          // rows that the conv reads before its own
constexpr int kPiecesBefore = kBefore * kHead / 8;  // of 16 bytes
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float sigmoid_fast(float x) {
  return reciprocal_fast(1.0f + exp2_fast(-kLog2e * x));
}

// The three rows before a block, bf16, columns as in a row of a panel.
struct RowsBefore {
  bf16 row[2][kBefore][64];

  // Columns [8 chunk, +8) of row -3, -2 or -1 of the block.
  __device__ __forceinline__ bf16* piece(int index, int chunk) {
    return &row[chunk >> 3][index + kBefore][((chunk ^ index) & 7) * 8];
  }
};

// 16-byte pieces of a block's rows of q, k or v; thread t has columns [8 (t % 16), +8) of the rows
// t / 16 + 16 i.
struct BlockInput {
  const bf16* at;  // the thread's piece of its first row
  std::int64_t stride;
  int row;       // t / 16
  int num_rows;  // that exist

  // `head`: row 0 of the batch at the head's first column.
  __device__ BlockInput(const bf16* head, std::int64_t row_stride, const DeviceBlock& block)
      : at(head + (block.first_row + static_cast<std::int64_t>(threadIdx.x) / 16) * row_stride +
           threadIdx.x % 16 * 8),
        stride(row_stride),
        row(static_cast<int>(threadIdx.x) / 16),
        num_rows(block.num_rows) {}
  // Where piece i belongs in a matrix.
  __device__ __forceinline__ bf16* place(bf16* matrix, int i) const {
    return matrix + head_offset(row, static_cast<int>(threadIdx.x) % 16 * 8) + i * kTile * 64;
  }
  __device__ __forceinline__ bool exists(int i) const { return row + kTile * i < num_rows; }
};

__device__ __forceinline__ void copy_async(bf16* to, const bf16* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Raw rows straight into a matrix; pieces that do not exist are left as they are.
__device__ __forceinline__ void copy_rows(const BlockInput& input, bf16* matrix) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    if (input.exists(i)) copy_async(input.place(matrix, i), input.at + i * kTile * input.stride);
  }
}

struct InputRows {
  uint4 piece[kTiles];
};
__device__ __forceinline__ void load_rows(const BlockInput& input, InputRows& rows) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    rows.piece[i] = input.exists(i)
                        ? *reinterpret_cast<const uint4*>(input.at + i * kTile * input.stride)
                        : uint4{0, 0, 0, 0};
  }
}
__device__ __forceinline__ void store_rows_of(const BlockInput& input, const InputRows& rows,
                                              bf16* matrix) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    *reinterpret_cast<uint4*>(input.place(matrix, i)) = rows.piece[i];
  }
}

// Piece `index` of 48 of the rows before the block: from the batch, or the sequence's history.
__device__ __forceinline__ uint4 load_before(const KdaParams<bf16>& p,
                                             const ConvChannel<bf16>& head,
                                             const DeviceBlock& block,
                                             const DeviceSequence& sequence, int index) {
  const int j = index / 16, column = index % 16 * 8;
  const int since_call = block.first_row - sequence.first_row;
  if (since_call + j >= kBefore) {
    return *reinterpret_cast<const uint4*>(head.rows +
                                           (block.first_row + j - kBefore) * head.stride + column);
  }
  const float* at = conv_history(p, sequence.state_slot) + (since_call + j) * conv_channels(p) +
                    head.position + column;
  const float4 a = reinterpret_cast<const float4*>(at)[0];
  const float4 b = reinterpret_cast<const float4*>(at)[1];
  return {pack_bf16(a.x, a.y), pack_bf16(a.z, a.w), pack_bf16(b.x, b.y), pack_bf16(b.z, b.w)};
}
__device__ __forceinline__ void store_before(RowsBefore& before, int index, uint4 piece) {
  *reinterpret_cast<uint4*>(before.piece(index / 16 - kBefore, index % 16)) = piece;
}

// Right operands of 8 channels: two taps and what their rounding left, for rows r - 3 and r - 2,
// then for r - 1 and r.
struct TapOperands {
  uint2 early, early_rest, late, late_rest;
};

// `taps`: of channel lane / 4.
__device__ __forceinline__ TapOperands tap_operands(float4 taps, int lane) {
  const std::uint32_t early = pack_bf16(taps.x, taps.y), late = pack_bf16(taps.z, taps.w);
  const float2 e = unpack_bf16(early), l = unpack_bf16(late);
  const std::uint32_t early_rest = pack_bf16(taps.x - e.x, taps.y - e.y);
  const std::uint32_t late_rest = pack_bf16(taps.z - l.x, taps.w - l.y);
  // A lane holds rows 2 (lane % 4), +1 of column lane / 4 of each diagonal matrix.
  const bool has = lane % 4 == lane / 8, odd = (lane & 4) != 0;
  const std::uint32_t low = !has ? 0x4444u : odd ? 0x1044u : 0x4410u;
  const std::uint32_t high = !has ? 0x4444u : odd ? 0x3244u : 0x4432u;
  const auto spread = [low, high](std::uint32_t pair) {
    return uint2{__byte_perm(pair, 0, low), __byte_perm(pair, 0, high)};
  };
  return {spread(early), spread(early_rest), spread(late), spread(late_rest)};
}

// SiLU of y, given z = -log2(e) y: z / -log2(e) / (1 + 2^z).
__device__ __forceinline__ float silu_scaled(float z) {
  return z * reciprocal_fast(-kLog2e - kLog2e * exp2_fast(z));
}

// Conv and SiLU of channels [column, +16) of a matrix of raw rows, in place, by one warp. `taps`: of
// the head's first channel. Rows from num_rows on become zero.
__device__ __forceinline__ void convolve(bf16* matrix, RowsBefore& before, const float* taps,
                                         int num_rows, int column, int lane) {
  TapOperands operands[2];
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    float4 t = reinterpret_cast<const float4*>(taps)[column + 8 * n + lane / 4];
    t = {-kLog2e * t.x, -kLog2e * t.y, -kLog2e * t.z, -kLog2e * t.w};
    operands[n] = tap_operands(t, lane);
  }
  // Where a lane finds the first tile's rows r - 3 and r - 2, rows r - 1 and r, and puts its own.
  // The next 8 columns are one bit away, the next tile 16 rows of 128 bytes.
  constexpr std::uint32_t kNext8 = 8 * sizeof(bf16), kNextTile = kTile * 64 * sizeof(bf16);
  const std::uint32_t base = shared_address(matrix);
  const int first = (lane & 15) + (lane >> 4) - kBefore;
  const std::uint32_t early_at = base + sizeof(bf16) * head_offset(first, column);
  const std::uint32_t late_at = base + sizeof(bf16) * head_offset(first + 2, column);
  const std::uint32_t own_at =
      base + sizeof(bf16) * head_offset(lane & 15, column + (lane >> 4) * 8);
#pragma unroll
  for (int tile = kTiles - 1; tile >= 0; --tile) {
    std::uint32_t early_tile = early_at + tile * kNextTile, late_tile = late_at + tile * kNextTile;
    if (tile == 0) {
      if (first < 0) early_tile = shared_address(before.piece(first, column >> 3));
      if (first + 2 < 0) late_tile = shared_address(before.piece(first + 2, column >> 3));
    }
    std::uint32_t result[4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4 early = load_matrices(early_tile ^ n * kNext8);
      const uint4 late = load_matrices(late_tile ^ n * kNext8);
      float4 z{};
      mma_bf16(z, early, operands[n].early_rest.x, operands[n].early_rest.y);
      mma_bf16(z, late, operands[n].late_rest.x, operands[n].late_rest.y);
      mma_bf16(z, early, operands[n].early.x, operands[n].early.y);
      mma_bf16(z, late, operands[n].late.x, operands[n].late.y);
      result[2 * n] = pack_bf16(silu_scaled(z.x), silu_scaled(z.y));
      result[2 * n + 1] = pack_bf16(silu_scaled(z.z), silu_scaled(z.w));
    }
    __syncwarp();
    store_matrices(own_at + tile * kNextTile, {result[0], result[1], result[2], result[3]});
  }
  __syncwarp();
  for (int i = lane; i < 2 * (kBlock - num_rows); i += 32) {
    *reinterpret_cast<uint4*>(matrix + head_offset(num_rows + i / 2, column + i % 2 * 8)) = {0, 0,
                                                                                             0, 0};
  }
}

}  // namespace baltoro::cuda
