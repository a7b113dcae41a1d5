// BF16 experts: a block streams 32 weight rows, each of its warps a part of the columns, and
// multiplies them with up to 32 of the expert's rows of activations, the columns of the products.
#include <algorithm>

#include "cuda/device/load.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/quick_glu.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/expert_grouped.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 4;  // share the columns
constexpr int kThreads = 32 * kWarps;
constexpr int kStepCols = 32;  // 64 bytes of a row: eight neighbours a lane
constexpr int kAhead = 3;      // steps in flight

enum class Stage { kGateUp, kDown };

struct StageArgs {
  const ExpertEntry* table;
  ExpertGroups groups;
  int top_k;
  const bf16* x;  // z [M, K] or hidden [pairs, K]
  std::int64_t cols;
  std::int64_t rows;  // of a weight
  bf16* out;          // [pairs, rows]
  Activation activation;
};

// The sums of two tiles of 16 weight rows with columns of x.
template <int kTiles>
struct Sums {
  float4 d[2][kTiles];
};

// w: rows g and g + 8 of two tiles, x: row g of each tile of columns, at the lane's first column.
// An mma takes its k in any order, the same for both operands: a lane's neighbours serve as its k.
template <int kTiles>
__device__ __forceinline__ void multiply(const bf16* (&w)[4], const bf16* (&x)[kTiles], int steps,
                                         Sums<kTiles>& sums) {
  uint4 data[kAhead][4];
  const auto load = [&](int buffer) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      data[buffer][r] = load_stream(w[r]);
      w[r] += kStepCols;
    }
  };
#pragma unroll
  for (int buffer = 0; buffer < kAhead; ++buffer) {
    if (buffer < steps) load(buffer);
  }
  for (int step = 0; step < steps; step += kAhead) {
#pragma unroll
    for (int buffer = 0; buffer < kAhead; ++buffer) {
      if (step + buffer >= steps) break;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint4 b = *reinterpret_cast<const uint4*>(x[n]);
        x[n] += kStepCols;
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          const uint4& upper = data[buffer][2 * tile];
          const uint4& lower = data[buffer][2 * tile + 1];
          mma_bf16(sums.d[tile][n], {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
          mma_bf16(sums.d[tile][n], {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
        }
      }
      if (step + buffer + kAhead < steps) load(buffer);
    }
  }
}

// Adds the warps' sums, in order, in the first warp.
template <int kTiles>
__device__ __forceinline__ void join(Sums<kTiles>& sums, float4 (*shared)[2 * kTiles][32]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float4* flat = &sums.d[0][0];
  __syncthreads();
  if (warp != 0) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) shared[warp - 1][i][lane] = flat[i];
  }
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int other = 0; other < kWarps - 1; ++other) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float4 v = shared[other][i][lane];
      flat[i].x += v.x, flat[i].y += v.y, flat[i].z += v.z, flat[i].w += v.w;
    }
  }
}

__device__ __forceinline__ float element(const float4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// 16 rows of gate and the same of up, or 32 of down.
template <Stage kStage, int kTiles>
__device__ __forceinline__ void run_tile(const StageArgs& args, const RowGroup& group,
                                         std::int64_t row, float4* shared) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32;
  const int steps = static_cast<int>(args.cols / kStepCols);
  const int first = steps * warp / kWarps;
  const std::int64_t col = first * kStepCols + 8 * t;
  const ExpertEntry& e = args.table[group.expert];
  const bf16* w[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const void* data = kStage == Stage::kDown ? e.w2 : r < 2 ? e.w1 : e.w3;
    const std::int64_t at = row + g + r % 2 * 8 + (kStage == Stage::kDown ? r / 2 * 16 : 0);
    w[r] = static_cast<const bf16*>(data) + at * args.cols + col;
  }
  const bf16* x[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    // A column without a row repeats the last one; its sums are not used.
    const std::int64_t pair = pair_at(args.groups, group.first + min(8 * n + g, group.count - 1));
    x[n] = args.x + (kStage == Stage::kGateUp ? pair / args.top_k : pair) * args.cols + col;
  }
  Sums<kTiles> sums = {};
  multiply(w, x, steps * (warp + 1) / kWarps - first, sums);
  join(sums, reinterpret_cast<float4(*)[2 * kTiles][32]>(shared));
  if (warp != 0) return;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = 8 * n + 2 * t + c % 2;
      if (column >= group.count) continue;
      bf16* out =
          args.out + pair_at(args.groups, group.first + column) * args.rows + row + g + c / 2 * 8;
      const float one = element(sums.d[0][n], c), two = element(sums.d[1][n], c);
      if constexpr (kStage == Stage::kGateUp) {
        out[0] = from_f32<bf16>(quick_glu(args.activation, one, two));
      } else {
        out[0] = from_f32<bf16>(one);
        out[16] = from_f32<bf16>(two);
      }
    }
  }
}

template <Stage kStage, int kTiles>
__global__ void __launch_bounds__(kThreads, kTiles == 4 ? 3 : 4) expert_bf16_stage(StageArgs args) {
  __shared__ float4 shared[(kWarps - 1) * 2 * kTiles * 32];
  constexpr int kTileRows = kStage == Stage::kGateUp ? 16 : 32;
  const std::int64_t tiles = args.rows / kTileRows;
  wait_for_previous_kernel();
  start_next_kernel();
  const std::int64_t total = count_of(args.groups) * tiles;
  for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const RowGroup group = group_at(args.groups, work / tiles);
    run_tile<kStage, kTiles>(args, group, work % tiles * kTileRows, shared);
  }
}

template <Stage kStage>
void run_stage(Context& context, const StageArgs& args) {
  constexpr const char* kName =
      kStage == Stage::kGateUp ? "expert_mlp: gate and up" : "expert_mlp: down";
  const std::int64_t work =
      args.groups.max_groups * (args.rows / (kStage == Stage::kGateUp ? 16 : 32));
  const auto go = [&](auto kernel, int blocks_per_sm) {
    const std::int64_t resident = std::int64_t{context.device.num_sms} * blocks_per_sm;
    launch({.name = kName,
            .grid = dim3(static_cast<unsigned>(std::min(work, resident))),
            .block = dim3(kThreads),
            .stream = context.stream,
            .overlap = true},
           kernel, args);
  };
  if (args.groups.group_rows <= 8) {
    go(expert_bf16_stage<kStage, 1>, 4);
  } else if (args.groups.group_rows <= 16) {
    go(expert_bf16_stage<kStage, 2>, 4);
  } else {
    go(expert_bf16_stage<kStage, 4>, 3);
  }
}

// One row. There is one column to multiply, so that a warp reads whole rows of weights, 512 bytes at a
// time, with all of its loads under way at once.
__device__ __forceinline__ float dot8(const uint4& a, const uint4& b, float sum) {
  const std::uint32_t as[] = {a.x, a.y, a.z, a.w}, bs[] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(as[i] << 16), __uint_as_float(bs[i] << 16), sum);
    sum = fmaf(__uint_as_float(as[i] & 0xffff0000u), __uint_as_float(bs[i] & 0xffff0000u), sum);
  }
  return sum;
}

struct RowGateUp {
  const ExpertEntry* table;
  int num_experts;
  const std::int32_t* ids;  // of the slots
  const uint4* x;           // [vectors]
  int vectors;
  int inner;
  bf16* hidden;  // [slots, inner]
  Activation activation;
};

// Grid: (rows of the weights, slots). A warp makes one value.
constexpr int kGateUpWarps = 3;
constexpr int kGateUpVectors = 9;  // of a row, in a lane at a time
__global__ void __launch_bounds__(32 * kGateUpWarps, 7) expert_bf16_row_gate_up(RowGateUp args) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int row = static_cast<int>(blockIdx.x) * kGateUpWarps + static_cast<int>(threadIdx.x / 32);
  const auto slot = static_cast<int>(blockIdx.y);
  // The entries of the experts that will be chosen, whichever they are, into L2.
  const auto entry = static_cast<int>(blockIdx.x) * 32 + lane;
  if (slot == 0 && threadIdx.x < 32 && entry < args.num_experts) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(args.table + entry));
  }
  wait_for_previous_kernel();
  start_next_kernel();
  if (row >= args.inner) return;
  const ExpertEntry& e = args.table[__ldcg(args.ids + slot)];
  const auto* gate = static_cast<const uint4*>(e.w1) + std::int64_t{row} * args.vectors;
  const auto* up = static_cast<const uint4*>(e.w3) + std::int64_t{row} * args.vectors;
  float g = 0, u = 0;
  for (int first = lane; first < args.vectors; first += 32 * kGateUpVectors) {
    uint4 w[2][kGateUpVectors];
#pragma unroll
    for (int v = 0; v < kGateUpVectors; ++v) {
      const int at = first + 32 * v;
      const bool inside = at < args.vectors;
      w[0][v] = inside ? load_stream(gate + at) : uint4{0, 0, 0, 0};
      w[1][v] = inside ? load_stream(up + at) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int v = 0; v < kGateUpVectors; ++v) {
      const int at = first + 32 * v;
      const uint4 x = at < args.vectors ? args.x[at] : uint4{0, 0, 0, 0};
      g = dot8(w[0][v], x, g);
      u = dot8(w[1][v], x, u);
    }
  }
  g = warp_sum(g);
  u = warp_sum(u);
  if (lane != 0) return;
  args.hidden[slot * args.inner + row] = from_f32<bf16>(quick_glu(args.activation, g, u));
}

// The down product, and the weighted sum of the slots: a block has kRowRows weight rows, a warp one
// slot at a time. The ids were there before the kernel ahead began, so that the first weights are
// under way before it has ended.
constexpr int kRowWarps = 8;
constexpr int kRowThreads = 32 * kRowWarps;
constexpr int kRowRows = 4;
constexpr int kRowVectors = 4;  // of a weight row, in a lane at a time

struct RowArgs {
  const ExpertEntry* table;
  const std::int32_t* ids;
  const float* weights;  // of the slots
  int top_k;             // at most kMostRowSlots
  const uint4* hidden;   // [top_k, vectors]
  int vectors;
  bf16* out;
};

__global__ void __launch_bounds__(kRowThreads, 3) expert_bf16_row(RowArgs args) {
  __shared__ float downs[kMostRowSlots][kRowRows];
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowRows;
  uint4 w[kRowRows][kRowVectors];
  const auto load = [&](int slot, int first) {
    const auto* data = static_cast<const uint4*>(args.table[__ldcg(args.ids + slot)].w2);
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
      const int at = first + 32 * v + lane;
#pragma unroll
      for (int r = 0; r < kRowRows; ++r) {
        w[r][v] = at < args.vectors ? load_stream(data + (row + r) * args.vectors + at)
                                    : uint4{0, 0, 0, 0};
      }
    }
  };
  if (warp < args.top_k) load(warp, 0);
  wait_for_previous_kernel();
  start_next_kernel();
  for (int slot = warp; slot < args.top_k; slot += kRowWarps) {
    const uint4* hidden = args.hidden + slot * args.vectors;
    float sums[kRowRows] = {};
    for (int first = 0; first < args.vectors; first += 32 * kRowVectors) {
      if (slot != warp || first > 0) load(slot, first);
#pragma unroll
      for (int v = 0; v < kRowVectors; ++v) {
        const int at = first + 32 * v + lane;
        const uint4 x = at < args.vectors ? hidden[at] : uint4{0, 0, 0, 0};
#pragma unroll
        for (int r = 0; r < kRowRows; ++r) sums[r] = dot8(w[r][v], x, sums[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowRows; ++r) {
      const float sum = warp_sum(sums[r]);
      if (lane == 0) downs[slot][r] = round_as<bf16>(sum);
    }
  }
  __syncthreads();
  if (threadIdx.x >= kRowRows) return;
  float sum = 0;
  for (int slot = 0; slot < args.top_k; ++slot) {
    sum += args.weights[slot] * downs[slot][threadIdx.x];
  }
  args.out[row + threadIdx.x] = from_f32<bf16>(sum);
}

void run_row(Context& context, const GroupedExperts& experts, bf16* hidden) {
  const RowGateUp gate_up{experts.table,
                          experts.num_experts,
                          experts.groups.row_ids,
                          static_cast<const uint4*>(experts.z),
                          static_cast<int>(experts.width / 8),
                          static_cast<int>(experts.inner),
                          hidden,
                          experts.activation};
  launch({.name = "expert_mlp: gate and up of a row",
          .grid = dim3(ceil_div(experts.inner, kGateUpWarps), static_cast<unsigned>(experts.top_k)),
          .block = dim3(32 * kGateUpWarps),
          .stream = context.stream,
          .overlap = true},
         expert_bf16_row_gate_up, gate_up);
  const RowArgs row{experts.table,
                    experts.groups.row_ids,
                    experts.sum.weights,
                    experts.top_k,
                    reinterpret_cast<const uint4*>(hidden),
                    static_cast<int>(experts.inner / 8),
                    static_cast<bf16*>(experts.sum.out)};
  launch({.name = "expert_mlp: down and sum of a row",
          .grid = dim3(static_cast<unsigned>(experts.width / kRowRows)),
          .block = dim3(kRowThreads),
          .stream = context.stream,
          .overlap = true},
         expert_bf16_row, row);
}

}  // namespace

std::size_t bf16_experts_bytes(const GroupedExperts& experts) {
  return Scratch::bytes_of<bf16>(experts.groups.num_pairs * experts.inner);
}

void bf16_experts(Context& context, const GroupedExperts& experts) {
  const auto& [table, num_experts, groups, z, rows, top_k, width, inner, activation, fp8_rows, down,
               sum] = experts;
  bf16* hidden = context.scratch.take<bf16>(groups.num_pairs * inner);
  if (down == nullptr) return run_row(context, experts, hidden);
  run_stage<Stage::kGateUp>(context, {table, groups, top_k, static_cast<const bf16*>(z), width,
                                      inner, hidden, activation});
  run_stage<Stage::kDown>(
      context, {table, groups, top_k, hidden, inner, width, static_cast<bf16*>(down), activation});
}

}  // namespace baltoro::cuda
