// A warp streams half of the columns of 32 weight rows through registers. A lane loads 16 bytes of a
// row, one scale group, so that the four lanes of a row hold four groups. Each row of activations
// takes four columns of a product, one a group, with zeros where the lanes of the other groups
// multiply: sums then belong to one group and take its scale, exactly.
#include <cuda_fp16.h>

#include <algorithm>

#include "cuda/device/load.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/device/mxfp4.cuh"
#include "cuda/device/mxfp4_half.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/quick_glu.cuh"
#include "cuda/device/word.cuh"
#include "cuda/expert_half_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kSplit = 2;  // of the columns, among warps
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlockTiles = kWarps / kSplit;
constexpr int kStepCols = 128;
constexpr unsigned kAll = 0xffffffffu;

enum class Stage { kGateUp, kDown };

struct HalfArgs {
  const ExpertEntry* table;
  ExpertGroups groups;
  int top_k;
  const __half* x;       // z [M, K] or hidden [pairs, K], scaled, in mxfp4_position order
  const float* unscale;  // kGateUp: [M] what takes a row's sums to their value
  float scale;           // what hidden is scaled by
  std::int64_t cols;
  std::int64_t rows;  // of a weight
  void* out;          // fp16 hidden [pairs, rows] in mxfp4_position order, or bf16 down
  Activation activation;
};

// Weight rows g and g + 8 of two tiles, from a column on.
struct LaneRows {
  const std::uint8_t* packed[2];
  const std::uint8_t* scales[2];
  std::uint32_t packed_stride, scale_stride;  // from row g to row g + 8

  __device__ __forceinline__ void set(int tile, const void* data, const std::uint8_t* scale_data,
                                      std::int64_t row, std::int64_t cols, std::int64_t col) {
    const std::int64_t r = row + threadIdx.x % 32 / 4;
    packed[tile] =
        static_cast<const std::uint8_t*>(data) + (r * cols + col) / 2 + 16 * (threadIdx.x % 4);
    scales[tile] = scale_data + (r * cols + col) / kMxGroup;
    packed_stride = static_cast<std::uint32_t>(4 * cols);
    scale_stride = static_cast<std::uint32_t>(8 * cols / kMxGroup);
  }
};

// The sums over some columns: [tile][pair of rows of x][weight row g or g + 8], of row
// 2 pair + t / 2 of x and two of the four groups.
template <int kPairs>
struct Sums {
  float d[2][kPairs][2];
};

template <int kPairs>
__device__ __forceinline__ void multiply_step(const uint4 (&packed)[4],
                                              const std::uint32_t (&scales)[4],
                                              const __half* const (&x)[kPairs], bool mine,
                                              Sums<kPairs>& sums) {
  float4 c[2][kPairs] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint4 b[kPairs];
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      b[n] = mine ? *reinterpret_cast<const uint4*>(x[n] + 8 * i) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      std::uint32_t upper[4], lower[4];
      decode_codes(word_of(packed[2 * tile], i), upper);
      decode_codes(word_of(packed[2 * tile + 1], i), lower);
#pragma unroll
      for (int n = 0; n < kPairs; ++n) {
        mma_f16(c[tile][n], {upper[0], lower[0], upper[1], lower[1]}, b[n].x, b[n].y);
        mma_f16(c[tile][n], {upper[2], lower[2], upper[3], lower[3]}, b[n].z, b[n].w);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    // Two e8m0 of this lane's columns, as f32.
    const std::uint32_t two = scales[r] >> (threadIdx.x % 2 * 16);
    const float first = __uint_as_float(two << 23 & 0x7f800000u);
    const float second = __uint_as_float(two << 15 & 0x7f800000u);
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      const float4& of = c[r / 2][n];
      float& sum = sums.d[r / 2][n][r % 2];
      sum = fmaf(r % 2 == 0 ? of.x : of.z, first, sum);
      sum = fmaf(r % 2 == 0 ? of.y : of.w, second, sum);
    }
  }
}

// Over `steps` steps of 128 columns; two steps of weights are in flight.
template <int kPairs>
__device__ __forceinline__ void multiply(LaneRows w, const __half* (&x)[kPairs], bool mine,
                                         int steps, Sums<kPairs>& sums) {
  uint4 packed[2][4];
  std::uint32_t scales[2][4];
  const auto load = [&](int buffer) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      packed[buffer][r] = load_stream(w.packed[r / 2] + r % 2 * w.packed_stride);
      scales[buffer][r] =
          __ldg(reinterpret_cast<const std::uint32_t*>(w.scales[r / 2] + r % 2 * w.scale_stride));
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      w.packed[tile] += kStepCols / 2;
      w.scales[tile] += kStepCols / kMxGroup;
    }
  };
  load(0);
  if (steps > 1) load(1);
  for (int step = 0; step < steps; step += 2) {
#pragma unroll
    for (int buffer = 0; buffer < 2; ++buffer) {
      if (step + buffer >= steps) break;
      multiply_step(packed[buffer], scales[buffer], x, mine, sums);
      if (step + buffer + 2 < steps) load(buffer);
#pragma unroll
      for (int n = 0; n < kPairs; ++n) x[n] += kStepCols;
    }
  }
}

// Adds the other warps' sums of the same tile to those of its first warp.
template <int kPairs>
__device__ __forceinline__ void join(Sums<kPairs>& sums, float (*shared)[4 * kPairs][32]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* flat = &sums.d[0][0][0];
  __syncthreads();
  if (warp % kSplit != 0) {
#pragma unroll
    for (int i = 0; i < 4 * kPairs; ++i) shared[warp][i][lane] = flat[i];
  }
  __syncthreads();
  if (warp % kSplit != 0) return;
#pragma unroll
  for (int other = 1; other < kSplit; ++other) {
#pragma unroll
    for (int i = 0; i < 4 * kPairs; ++i) flat[i] += shared[warp + other][i][lane];
  }
}

// 32 weight rows: 16 of gate and the same of up, or 32 of down.
template <Stage kStage, int kPairs>
__device__ __forceinline__ void run_tile(const HalfArgs& args, const RowGroup& group,
                                         std::int64_t row, bool inside, float* shared) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int part = static_cast<int>(threadIdx.x / 32) % kSplit;
  const int steps = static_cast<int>(args.cols / kStepCols);
  const int first_step = steps * part / kSplit;
  Sums<kPairs> sums = {};
  if (inside) {
    const ExpertEntry& e = args.table[group.expert];
    const std::int64_t col = first_step * kStepCols;
    LaneRows w;
    if constexpr (kStage == Stage::kGateUp) {
      w.set(0, e.w1, e.w1_scales, row, args.cols, col);
      w.set(1, e.w3, e.w3_scales, row, args.cols, col);
    } else {
      w.set(0, e.w2, e.w2_scales, row, args.cols, col);
      w.set(1, e.w2, e.w2_scales, row + 16, args.cols, col);
    }
    const __half* x[kPairs];
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      // A column without a row repeats the last one; its sums are not used.
      const std::int64_t pair =
          pair_at(args.groups, group.first + min(2 * n + g / 4, group.count - 1));
      const std::int64_t source = kStage == Stage::kGateUp ? pair / args.top_k : pair;
      x[n] = args.x + source * args.cols + col + kMxGroup * t;
    }
    multiply(w, x, g % 4 == t, steps * (part + 1) / kSplit - first_step, sums);
  }
  join(sums, reinterpret_cast<float(*)[4 * kPairs][32]>(shared));
  if (!inside || part != 0) return;
#pragma unroll
  for (int n = 0; n < kPairs; ++n) {
    float value[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float mine = sums.d[i / 2][n][i % 2];
      value[i / 2][i % 2] = mine + __shfl_xor_sync(kAll, mine, 1);
    }
    const int column = 2 * n + t / 2;
    if (column >= group.count) continue;
    // Of the two lanes with the sums of a column, one finishes row g and the other row g + 8.
    const int i = t % 2;
    const std::int64_t pair = pair_at(args.groups, group.first + column), at = row + g + 8 * i;
    if constexpr (kStage == Stage::kGateUp) {
      const float unscale = args.unscale[pair / args.top_k];
      const float hidden =
          quick_glu(args.activation, (i == 0 ? value[0][0] : value[0][1]) * unscale,
                    (i == 0 ? value[1][0] : value[1][1]) * unscale);
      static_cast<__half*>(args.out)[pair * args.rows + mxfp4_position(static_cast<int>(at))] =
          __float2half_rn(hidden * args.scale);
    } else {
      const float unscale = kHalfCodeUnscale / args.scale;
      auto* out = static_cast<bf16*>(args.out) + pair * args.rows + at;
      out[0] = from_f32<bf16>((i == 0 ? value[0][0] : value[0][1]) * unscale);
      out[16] = from_f32<bf16>((i == 0 ? value[1][0] : value[1][1]) * unscale);
    }
  }
}

template <Stage kStage, int kPairs, int kBlocksPerSm>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) expert_half_stage(HalfArgs args) {
  __shared__ float shared[kWarps * 4 * kPairs * 32];
  constexpr int kTileRows = kStage == Stage::kGateUp ? 16 : 32;
  const std::int64_t tiles = args.rows / kTileRows;
  const std::int64_t blocks = (tiles + kBlockTiles - 1) / kBlockTiles;
  wait_for_previous_kernel();
  // One row has so few tiles that blocks of the next kernel would take room from those of this one.
  if (args.groups.row_ids == nullptr) start_next_kernel();
  const std::int64_t total = count_of(args.groups) * blocks;
  for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const std::int64_t tile = work % blocks * kBlockTiles + threadIdx.x / 32 / kSplit;
    const RowGroup group = group_at(args.groups, work / blocks);
    const std::int64_t row = tile * kTileRows;
    if (kPairs == 1 || group.count <= 2) {
      run_tile<kStage, 1>(args, group, row, tile < tiles, shared);
    } else if (kPairs == 2 || group.count <= 4) {
      run_tile < kStage, kPairs<2 ? 1 : 2>(args, group, row, tile < tiles, shared);
    } else {
      run_tile<kStage, kPairs>(args, group, row, tile < tiles, shared);
    }
  }
}

template <Stage kStage>
void run_stage(Context& context, const HalfArgs& args) {
  constexpr int kTileRows = kStage == Stage::kGateUp ? 16 : 32;
  constexpr const char* kName =
      kStage == Stage::kGateUp ? "expert_mlp: gate and up" : "expert_mlp: down";
  const std::int64_t work = args.groups.max_groups * ceil_div(args.rows / kTileRows, kBlockTiles);
  const auto go = [&](auto kernel, int blocks_per_sm) {
    const std::int64_t resident = std::int64_t{context.device.num_sms} * blocks_per_sm;
    launch({.name = kName,
            .grid = dim3(static_cast<unsigned>(std::min(work, resident))),
            .block = dim3(kThreads),
            .stream = context.stream,
            .overlap = true},
           kernel, args);
  };
  if (args.groups.group_rows <= 2) {
    go(expert_half_stage<kStage, 1, 5>, 5);
  } else if (args.groups.group_rows <= 4) {
    go(expert_half_stage<kStage, 2, 4>, 4);
  } else {
    go(expert_half_stage<kStage, 4, 3>, 3);
  }
}

}  // namespace

void half_experts(Context& context, const GroupedExperts& experts) {
  const HalfRows rows = make_half_rows(context, experts);
  run_stage<Stage::kGateUp>(
      context, {experts.table, experts.groups, experts.top_k, rows.z, rows.unscale, rows.scale,
                experts.width, experts.inner, rows.hidden, experts.activation});
  finish_hidden(context, experts, rows);
  run_stage<Stage::kDown>(
      context, {experts.table, experts.groups, experts.top_k, rows.hidden, nullptr, rows.scale,
                experts.inner, experts.width, experts.down, experts.activation});
}

}  // namespace baltoro::cuda
