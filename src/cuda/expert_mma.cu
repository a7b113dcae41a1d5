// Decoding: a warp streams 32 rows of one expert's weights once through registers and multiplies
// them with up to 32 of the expert's rows of activations, which are the columns of the products.
#include <algorithm>

#include "cuda/device/load.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/device/mxfp4.cuh"
#include "cuda/device/quick_glu.cuh"
#include "cuda/device/word.cuh"
#include "cuda/expert_grouped.h"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
// A step reads 64 bytes, 128 columns, of each row; a loop body is two of them.
constexpr int kStepCols = 128;
constexpr int kLoopCols = 2 * kStepCols;

enum class Stage { kGateUp, kDown };

struct StageArgs {
  const ExpertEntry* table;
  ExpertGroups groups;
  int top_k;
  const bf16* x;  // z [M, K] or hidden [pairs, K], elements in mxfp4_position order
  std::int64_t cols;
  std::int64_t rows;  // of a weight
  bf16* out;          // hidden [pairs, rows] in mxfp4_position order, or down [pairs, rows]
  Activation activation;
};

// The four weight rows of a lane: g and g + 8 of two tiles of 16 rows.
struct LaneRows {
  const std::uint8_t* packed[4];
  const std::uint8_t* scales[4];

  __device__ __forceinline__ void set(int tile, const void* data, const std::uint8_t* scale_data,
                                      std::int64_t row, std::int64_t cols) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t r = row + threadIdx.x % 32 / 4 + 8 * i;
      packed[2 * tile + i] = static_cast<const std::uint8_t*>(data) + r * (cols / 2) + 16 * t;
      scales[2 * tile + i] = scale_data + r * (cols / kMxGroup);
    }
  }
};

__device__ __forceinline__ float element(const float4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// acc [2 tiles][kTiles of 8 columns] += the lanes' weights times x, over all columns.
template <int kTiles>
__device__ __forceinline__ void multiply(LaneRows w, const bf16* const (&x)[kTiles],
                                         std::int64_t cols, float4 (&acc)[2][kTiles]) {
  const int t = threadIdx.x % 4;
  uint4 packed[2][4];
  uint2 scales[4], next_scales[4];
  const auto load_step = [&](int buffer) {
#pragma unroll
    for (int r = 0; r < 4; ++r) packed[buffer][r] = load_stream(w.packed[r] + buffer * 64);
  };
  const auto load_scales = [&] {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      next_scales[r] = __ldg(reinterpret_cast<const uint2*>(w.scales[r]));
      w.scales[r] += kLoopCols / kMxGroup;
    }
  };
  load_scales();
  load_step(0);
  load_step(1);
  for (std::int64_t col = 0; col < cols; col += kLoopCols) {
    const bool more = col + kLoopCols < cols;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      scales[r] = next_scales[r];
      w.packed[r] += kLoopCols / 2;
    }
    if (more) load_scales();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t multiplier[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t word = half == 0 ? scales[r].x : scales[r].y;
        multiplier[r] = mxfp4_multiplier(word >> (8 * t) & 255u);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint4 b[kTiles];
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          b[n] = x[n] == nullptr
                     ? uint4{0, 0, 0, 0}
                     : __ldg(reinterpret_cast<const uint4*>(x[n] + col + half * kStepCols + 8 * i));
        }
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          std::uint32_t upper[4], lower[4];
          decode_mxfp4(word_of(packed[half][2 * tile], i), multiplier[2 * tile], upper);
          decode_mxfp4(word_of(packed[half][2 * tile + 1], i), multiplier[2 * tile + 1], lower);
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            mma_bf16(acc[tile][n], {upper[0], lower[0], upper[1], lower[1]}, b[n].x, b[n].y);
            mma_bf16(acc[tile][n], {upper[2], lower[2], upper[3], lower[3]}, b[n].z, b[n].w);
          }
        }
      }
      if (more) load_step(half);
    }
  }
}

// 32 weight rows: 16 of gate and the same of up, or 32 of down.
template <Stage kStage, int kTiles>
__device__ __forceinline__ void run_tile(const StageArgs& args, const RowGroup& group,
                                         std::int64_t row) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const ExpertEntry& e = args.table[group.expert];
  LaneRows w;
  if constexpr (kStage == Stage::kGateUp) {
    w.set(0, e.w1, e.w1_scales, row, args.cols);
    w.set(1, e.w3, e.w3_scales, row, args.cols);
  } else {
    w.set(0, e.w2, e.w2_scales, row, args.cols);
    w.set(1, e.w2, e.w2_scales, row + 16, args.cols);
  }
  const bf16* x[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    // A column without a row repeats the last one; its sums are not used.
    const std::int64_t pair = pair_at(args.groups, group.first + min(8 * n + g, group.count - 1));
    const std::int64_t source = kStage == Stage::kGateUp ? pair / args.top_k : pair;
    x[n] = args.x + source * args.cols + kMxGroup * t;
  }
  float4 acc[2][kTiles] = {};
  multiply(w, x, args.cols, acc);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = 8 * n + 2 * t + c % 2;
      if (column >= group.count) continue;
      bf16* out = args.out + std::int64_t{pair_at(args.groups, group.first + column)} * args.rows;
      const int r = static_cast<int>(row) + g + c / 2 * 8;
      const float first = element(acc[0][n], c) * kMxfp4Unscale;
      const float second = element(acc[1][n], c) * kMxfp4Unscale;
      if constexpr (kStage == Stage::kGateUp) {
        out[mxfp4_position(r)] = from_f32<bf16>(quick_glu(args.activation, first, second));
      } else {
        out[r] = from_f32<bf16>(first);
        out[r + 16] = from_f32<bf16>(second);
      }
    }
  }
}

template <Stage kStage, int kTiles, int kBlocksPerSm>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) expert_stage(StageArgs args) {
  constexpr int kTileRows = kStage == Stage::kGateUp ? 16 : 32;
  const std::int64_t tiles = args.rows / kTileRows;
  const std::int64_t blocks = (tiles + kWarps - 1) / kWarps;
  const std::int64_t total = count_of(args.groups) * blocks;
  for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const std::int64_t tile = work % blocks * kWarps + threadIdx.x / 32;
    if (tile >= tiles) continue;
    const RowGroup group = group_at(args.groups, work / blocks);
    if (kTiles == 1 || group.count <= 8) {
      run_tile<kStage, 1>(args, group, tile * kTileRows);
    } else if (kTiles == 2 || group.count <= 16) {
      run_tile<kStage, (kTiles < 2 ? 1 : 2)>(args, group, tile * kTileRows);
    } else {
      run_tile<kStage, kTiles>(args, group, tile * kTileRows);
    }
  }
}

// Eight elements a thread, into the order that meets decoded pairs.
__global__ void arrange(const uint4* z, std::int64_t count, uint4* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const uint4 v = z[i];
  out[i] = {__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632),
            __byte_perm(v.y, v.w, 0x5410), __byte_perm(v.y, v.w, 0x7632)};
}

template <Stage kStage>
void run_stage(Context& context, const StageArgs& args) {
  constexpr int kTileRows = kStage == Stage::kGateUp ? 16 : 32;
  constexpr const char* kName =
      kStage == Stage::kGateUp ? "expert_mlp: gate and up" : "expert_mlp: down";
  const std::int64_t work = args.groups.max_groups * ceil_div(args.rows / kTileRows, kWarps);
  const auto go = [&](auto kernel, int blocks_per_sm) {
    const std::int64_t resident = std::int64_t{context.device.num_sms} * blocks_per_sm;
    launch({kName, static_cast<unsigned>(std::min(work, resident)), kThreads, 0, context.stream},
           kernel, args);
  };
  if (args.groups.group_rows <= 8) {
    go(expert_stage<kStage, 1, 5>, 5);
  } else if (args.groups.group_rows <= 16) {
    go(expert_stage<kStage, 2, 4>, 4);
  } else {
    go(expert_stage<kStage, 4, 3>, 3);
  }
}

}  // namespace

std::size_t mma_experts_bytes(const GroupedExperts& experts) {
  return Scratch::bytes_of<bf16>(experts.rows * experts.width) +
         Scratch::bytes_of<bf16>(experts.groups.num_pairs * experts.inner);
}

void mma_experts(Context& context, const GroupedExperts& experts) {
  const auto& [table, num_experts, groups, x, rows, top_k, width, inner, activation, fp8_rows, down,
               sum] = experts;
  bf16* z = context.scratch.take<bf16>(rows * width);
  bf16* hidden = context.scratch.take<bf16>(groups.num_pairs * inner);
  constexpr int kVectorThreads = 128;
  const std::int64_t vectors = rows * width / 8;
  launch(
      {"expert_mlp: arrange", ceil_div(vectors, kVectorThreads), kVectorThreads, 0, context.stream},
      arrange, static_cast<const uint4*>(x), vectors, reinterpret_cast<uint4*>(z));
  run_stage<Stage::kGateUp>(context, {table, groups, top_k, z, width, inner, hidden, activation});
  if (fp8_rows) round_fp8_rows(context, whole_rows(groups.num_pairs, inner), hidden, hidden);
  run_stage<Stage::kDown>(
      context, {table, groups, top_k, hidden, inner, width, static_cast<bf16*>(down), activation});
}

}  // namespace baltoro::cuda
