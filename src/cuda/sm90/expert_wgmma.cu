// Many rows an expert: products of warpgroups. Weights go from memory to registers, are decoded
// there and are the A operand; the expert's rows of activations are the columns of B in shared
// memory, up to 256 at once. Activations lie in panels [K / 64][positions][64] that a bulk copy
// brings as the tensor cores want them: the position of a pair is its place in the sorted list, 16
// byte chunks are exchanged by the low bits of the position, and elements are in the order in which
// a thread decodes the weights that meet them (docs/cuda/experts.md).
#include <algorithm>

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mxfp4.cuh"
#include "cuda/device/quick_glu.cuh"
#include "cuda/device/word.cuh"
#include "cuda/expert_grouped.h"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"
#include "cuda/sm90/register_wgmma.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kConsumers = 256;  // two warpgroups
constexpr int kThreads = kConsumers + 128;
constexpr int kStepCols = 128;  // of K: 64 bytes of a weight's row, two panels
constexpr int kPanelCols = 64;
constexpr int kPanelRow = kPanelCols * 2;  // bytes
constexpr int kStages = 4;
constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;

enum class Stage { kGateUp, kDown };

struct WideArgs {
  const ExpertEntry* table;
  ExpertGroups groups;
  std::int64_t positions;  // of a panel
  const unsigned char* x;  // panels of K columns
  std::int64_t cols;
  std::int64_t rows;  // of a weight
  void* out;          // kGateUp: panels of `rows` columns; kDown: bf16 [pairs, rows]
  Activation activation;
};

struct Shared {
  unsigned char x[kStages][2][kWideRows * kPanelRow];
  unsigned char hidden[kWideRows * kPanelRow];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};
constexpr std::size_t kSharedBytes = sizeof(Shared) + 1024;  // to align it
static_assert(kSharedBytes <= 227 << 10);

__device__ __forceinline__ void consumers_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

// A ring of stages, seen from one side.
struct Ring {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// Which rows of the weight a tile has, and which a lane decodes: upper (row g of a fragment) and
// lower (row g + 8).
template <Stage kStage>
struct Tile {
  static constexpr int kRows = kStage == Stage::kGateUp ? 64 : 128;  // of a matrix
  const std::uint8_t* packed[2];
  const std::uint8_t* scales[2];
  std::int64_t row;  // kDown: of the upper one; the lower is the next

  __device__ __forceinline__ Tile(const WideArgs& args, const RowGroup& group, std::int64_t tile) {
    const ExpertEntry& e = args.table[group.expert];
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const void* data[2];
    const std::uint8_t* scale_data[2];
    std::int64_t at[2];
    if constexpr (kStage == Stage::kGateUp) {
      // The 64 elements of one panel of hidden: 16 of each 32 in 128.
      row = tile / 2 * 128 + tile % 2 * 16 + warp / 2 * 32 + warp % 2 * 8 + g;
      data[0] = e.w1, data[1] = e.w3;
      scale_data[0] = e.w1_scales, scale_data[1] = e.w3_scales;
      at[0] = at[1] = row;
    } else {
      row = tile * kRows + warp * 16 + 2 * g;
      data[0] = data[1] = e.w2;
      scale_data[0] = scale_data[1] = e.w2_scales;
      at[0] = row, at[1] = row + 1;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      packed[i] = static_cast<const std::uint8_t*>(data[i]) + at[i] * (args.cols / 2) + 16 * t;
      scales[i] = scale_data[i] + at[i] * (args.cols / kMxGroup) + t;
    }
  }
};

// One step's weights of a lane: 32 columns of two rows.
struct Step {
  uint4 packed[2];
  std::uint32_t scales[2];

  template <Stage kStage>
  __device__ __forceinline__ void load(const Tile<kStage>& tile, int step) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      packed[i] = __ldg(reinterpret_cast<const uint4*>(tile.packed[i] + step * 64));
      scales[i] = __ldg(tile.scales[i] + step * (kStepCols / kMxGroup));
    }
  }
};

// Columns as kParts products of kPart each.
template <int kPartV, int kPartsV>
struct Columns {
  static constexpr int kPart = kPartV, kParts = kPartsV;
  float d[kParts][kPart / 2];
};

// The sums of a tile over all of K.
template <Stage kStage, typename C>
__device__ __forceinline__ void multiply(const Tile<kStage>& tile, int steps, Shared& shared,
                                         Ring& ring, C& sums) {
  Step ahead[2];
  ahead[0].load(tile, 0);
  ahead[1].load(tile, 1);
  std::uint32_t fragments[2][2][4];
  std::uint64_t* release = nullptr;
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    const Step now = ahead[0];
    ahead[0] = ahead[1];
    if (step + 2 < steps) ahead[1].load(tile, step + 2);
    const std::uint32_t upper = mxfp4_multiplier(now.scales[0]);
    const std::uint32_t lower = mxfp4_multiplier(now.scales[1]);
    barrier_wait(&shared.full[ring.stage], ring.parity);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      std::uint32_t(&a)[2][4] = fragments[word % 2];
      wgmma_wait<1>();
      if (word == 1 && release != nullptr) barrier_arrive(release);
      std::uint32_t up[4], low[4];
      decode_mxfp4(word_of(now.packed[0], word), upper, up);
      decode_mxfp4(word_of(now.packed[1], word), lower, low);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        a[h][0] = up[2 * h], a[h][1] = low[2 * h], a[h][2] = up[2 * h + 1];
        a[h][3] = low[2 * h + 1];
      }
      const std::uint64_t b =
          swizzled_descriptor(shared_address(shared.x[ring.stage][word / 2]) + word % 2 * 64);
      wgmma_fence();
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int p = 0; p < C::kParts; ++p) {
          RegisterWgmma<C::kPart>::multiply(sums.d[p], a[h],
                                            b + (p * C::kPart * kPanelRow + h * 32) / 16,
                                            step > 0 || word > 0 || h > 0);
        }
      }
      wgmma_commit();
    }
    release = &shared.empty[ring.stage];
    ring.next();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int p = 0; p < C::kParts; ++p) hold(sums.d[p]);
  barrier_arrive(release);
}

// The activations of gate and up, as one contiguous block of a panel.
template <typename C>
__device__ __forceinline__ void finish(const WideArgs& args, const RowGroup& group,
                                       std::int64_t tile, Shared& shared, C& sums) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int chunk = warp % 2 * 4 + g % 4;
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  consumers_sync();
#pragma unroll
  for (int p = 0; p < C::kParts; ++p) {
#pragma unroll
    for (int i = 0; i < C::kPart / 2; i += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = p * C::kPart + i * 2 + 2 * t + c;
        const float value = quick_glu(args.activation, sums.d[p][i + c] * kMxfp4Unscale,
                                      sums.d[p][i + c + 2] * kMxfp4Unscale);
        // Column 8j + k lies at a position of the same low bits, as groups start at multiples of 8.
        *reinterpret_cast<bf16*>(shared.hidden + column * kPanelRow + (chunk ^ column % 8) * 16 +
                                 warp / 2 * 4 + g / 4 * 2) = from_f32<bf16>(value);
      }
    }
  }
  bulk_store_fence();
  consumers_sync();
  if (threadIdx.x == 0) {
    auto* out =
        static_cast<unsigned char*>(args.out) + (tile * args.positions + group.first) * kPanelRow;
    const std::uint32_t bytes = (group.count + 7) / 8 * 8 * kPanelRow;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
                 "r"(shared_address(shared.hidden)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
}

// Rounded rows of down, to each pair's own place.
template <typename C>
__device__ __forceinline__ void scatter(const WideArgs& args, const RowGroup& group,
                                        std::int64_t row, C& sums) {
  const int t = threadIdx.x % 4;
  const std::int32_t* pairs = args.groups.pairs + group.first;
#pragma unroll
  for (int p = 0; p < C::kParts; ++p) {
#pragma unroll
    for (int i = 0; i < C::kPart / 2; i += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = p * C::kPart + i * 2 + 2 * t + c;
        if (column >= group.count) continue;
        auto* out = static_cast<bf16*>(args.out) + pairs[column] * args.rows + row;
        *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(
            sums.d[p][i + c] * kMxfp4Unscale, sums.d[p][i + c + 2] * kMxfp4Unscale);
      }
    }
  }
}

template <Stage kStage, int kPart, int kParts>
__device__ __forceinline__ void consume(const WideArgs& args, const RowGroup& group,
                                        std::int64_t tile, Shared& shared, Ring& ring) {
  const Tile<kStage> mine(args, group, tile);
  Columns<kPart, kParts> sums;
  multiply(mine, static_cast<int>(args.cols / kStepCols), shared, ring, sums);
  if constexpr (kStage == Stage::kGateUp) {
    finish(args, group, tile, shared, sums);
  } else {
    scatter(args, group, mine.row, sums);
  }
}

// The producer: brings the two panels of each step.
__device__ __forceinline__ void produce(const WideArgs& args, const RowGroup& group, Shared& shared,
                                        Ring& ring) {
  const std::uint32_t bytes = (group.count + 7) / 8 * 8 * kPanelRow;
  const std::int64_t panel_bytes = args.positions * kPanelRow;
  const unsigned char* from = args.x + static_cast<std::int64_t>(group.first) * kPanelRow;
  for (std::int64_t col = 0; col < args.cols; col += kStepCols) {
    barrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
    barrier_expect(&shared.full[ring.stage], 2 * bytes);
    for (int panel = 0; panel < 2; ++panel) {
      bulk_load(shared.x[ring.stage][panel], from, bytes, &shared.full[ring.stage]);
      from += panel_bytes;
    }
    ring.next();
  }
}

// Asks the L2 cache for the weights of a tile.
template <Stage kStage>
__device__ __forceinline__ void fetch_ahead(const WideArgs& args, const RowGroup& group,
                                            std::int64_t tile) {
  const ExpertEntry& e = args.table[group.expert];
  const auto ask = [&](const void* data, std::int64_t first, std::int64_t rows) {
    const std::int64_t row_bytes = args.cols / 2;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                     static_cast<const unsigned char*>(data) + first * row_bytes),
                 "r"(static_cast<std::uint32_t>(rows * row_bytes))
                 : "memory");
  };
  if constexpr (kStage == Stage::kGateUp) {
    // Two tiles share 128 rows: each asks for half.
    ask(e.w1, tile * 64, 64);
    ask(e.w3, tile * 64, 64);
  } else {
    ask(e.w2, tile * 128, 128);
  }
}

template <Stage kStage, int kPart, int kParts>
__global__ void __launch_bounds__(kThreads, 1) expert_wide(WideArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  Shared& shared = *reinterpret_cast<Shared*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&shared.full[s], 1);
      barrier_init(&shared.empty[s], kConsumers);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const std::int64_t tiles = args.rows / Tile<kStage>::kRows;
  const std::int64_t total = *args.groups.num_groups * tiles;
  Ring ring;
  if (threadIdx.x >= kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    for (std::int64_t work = blockIdx.x; work < total && threadIdx.x == kConsumers;
         work += gridDim.x) {
      const std::int64_t next = work + gridDim.x;
      if (next < total) fetch_ahead<kStage>(args, args.groups.groups[next / tiles], next % tiles);
      produce(args, args.groups.groups[work / tiles], shared, ring);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
      const RowGroup group = args.groups.groups[work / tiles];
      const std::int64_t tile = work % tiles;
      consume<kStage, kPart, kParts>(args, group, tile, shared, ring);
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
#endif
}

// z [M, K] to panels: each thread takes 32 elements of a pair, 8 of each group of 32 in 128.
__global__ void gather(const ExpertGroups groups, const uint4* z, int cols, int top_k,
                       std::int64_t positions, unsigned char* out) {
  const int per_position = cols / 32;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t position = i / per_position;
  if (position >= *groups.num_positions) return;
  const std::int32_t pair = groups.pairs[position];
  if (pair < 0) return;
  const int word = static_cast<int>(i % 4), block = static_cast<int>(i % per_position / 4);
  const uint4* from = z + static_cast<std::int64_t>(pair / top_k) * (cols / 8) + block * 16 + word;
  uint4 v[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) v[t] = __ldg(from + 4 * t);
  unsigned char* to = out + ((2 * block + word / 2) * positions + position) * kPanelRow;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // Elements e and e + 4 of the four words.
    std::uint32_t pairs[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      pairs[t] = __byte_perm(e < 2 ? v[t].x : v[t].y, e < 2 ? v[t].z : v[t].w,
                             e % 2 == 0 ? 0x5410 : 0x7632);
    }
    const int chunk = (word % 2 * 4 + e) ^ static_cast<int>(position % 8);
    *reinterpret_cast<uint4*>(to + chunk * 16) = {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

template <Stage kStage>
void run_stage(Context& context, const WideArgs& args) {
  constexpr const char* kName =
      kStage == Stage::kGateUp ? "expert_mlp: gate and up, wide" : "expert_mlp: down, wide";
  const auto go = [&](auto kernel) {
    launch({kName, static_cast<unsigned>(context.device.num_sms), kThreads, kSharedBytes,
            context.stream},
           kernel, args);
  };
  switch (args.groups.group_rows) {
    case 32:
      return go(expert_wide<kStage, 32, 1>);
    case 64:
      return go(expert_wide<kStage, 64, 1>);
    case 96:
      return go(expert_wide<kStage, 96, 1>);
    case 128:
      return go(expert_wide<kStage, 64, 2>);
    default:
      return go(expert_wide<kStage, 80, 2>);
  }
}

}  // namespace

std::size_t wide_experts_bytes(const GroupedExperts& experts) {
  const std::int64_t panel_rows = experts.groups.max_positions + kWideRows;
  return Scratch::bytes_of<bf16>(panel_rows * experts.width) +
         Scratch::bytes_of<bf16>(panel_rows * experts.inner);
}

void wide_experts(Context& context, const GroupedExperts& experts) {
  const std::int64_t panel_rows = experts.groups.max_positions + kWideRows;
  auto* x = context.scratch.take<bf16>(panel_rows * experts.width);
  auto* hidden = context.scratch.take<bf16>(panel_rows * experts.inner);
  const std::int64_t positions = experts.groups.max_positions;
  constexpr int kGatherThreads = 256;
  const std::int64_t threads = positions * (experts.width / 32);
  launch(
      {"expert_mlp: gather", ceil_div(threads, kGatherThreads), kGatherThreads, 0, context.stream},
      gather, experts.groups, static_cast<const uint4*>(experts.z), static_cast<int>(experts.width),
      experts.top_k, positions, reinterpret_cast<unsigned char*>(x));
  run_stage<Stage::kGateUp>(
      context, {experts.table, experts.groups, positions, reinterpret_cast<const unsigned char*>(x),
                experts.width, experts.inner, hidden, experts.activation});
  if (experts.fp8_rows) {
    const RowPieces rows{positions,
                         kPanelCols,
                         experts.inner / kPanelCols,
                         positions * kPanelCols,
                         kPanelCols,
                         experts.groups.num_positions};
    round_fp8_rows(context, rows, hidden, hidden);
  }
  run_stage<Stage::kDown>(context, {experts.table, experts.groups, positions,
                                    reinterpret_cast<const unsigned char*>(hidden), experts.inner,
                                    experts.width, experts.down, experts.activation});
}

}  // namespace baltoro::cuda
