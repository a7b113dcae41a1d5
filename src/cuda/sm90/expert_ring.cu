// Up to some 24 rows an expert, SiTU: weights stream through a ring in shared memory, activations
// stay in registers. A block walks over a contiguous range of tiles, 16 weight rows over all of K
// each (8 of gate and the same of up, or 16 of down), which one warp brings by bulk copies, ahead
// over tiles and experts. Each multiplying warp has a part of K, whose activations it holds for as
// long as the expert lasts. A fragment's 32 columns are one scale group of a weight row: codes are
// fp16 whose exponent field holds the code's own, sums over a group take its E8M0 scale in f32.
// Parts of a sum are added in the order of K by warps that do nothing else.
#include <cuda_fp16.h>

#include <algorithm>

#include "cuda/device/bulk_copy.cuh"
#include "cuda/device/mma.cuh"
#include "cuda/device/mxfp4.cuh"
#include "cuda/device/mxfp4_half.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/quick_glu.cuh"
#include "cuda/expert_half_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr unsigned kAll = 0xffffffffu;
constexpr int kTileRows = 16;
constexpr int kMostStages = 12;
// Warps that add parts, in turn: each has a buffer. With the warp that copies they are a warpgroup.
constexpr int kFinishers = 3;
constexpr int kRowPad =
    16;  // bytes behind a row in shared memory: eight rows lie in different banks
constexpr std::size_t kMostShared = 227 << 10;

enum class Stage { kGateUp, kDown };

// How a kernel divides its work: scale groups of K in a warp's part, the most parts, eights of rows
// of activations in a group, and registers of a thread once the warps have shared them out.
template <int kGroupsV, int kPartsV, int kTilesV>
struct Division {
  static constexpr int kGroups = kGroupsV, kParts = kPartsV, kTiles = kTilesV;
  static constexpr int kThreads = 32 * (kParts + 1 + kFinishers);
  static constexpr int kMultiplierRegisters = kParts == 16 ? 104 : 232;
  static constexpr int kHelperRegisters = kParts == 16 ? 64 : 40;
};

struct RingArgs {
  const ExpertEntry* table;
  ExpertGroups groups;
  int top_k;
  const __half* x;       // z [M, K] or hidden [pairs, K], in mxfp4_position order
  const float* unscale;  // kGateUp: [M]
  float scale;           // of hidden
  int cols;
  int rows;   // of a weight
  void* out;  // fp16 hidden [pairs, rows] in mxfp4_position order, or bf16 down
  Activation activation;
  int parts;   // of K
  int stages;  // of the ring
};

// A stage of the ring: 16 rows of codes, then their scales.
struct StageLayout {
  int row_bytes, scale_bytes, bytes;
  __host__ __device__ explicit StageLayout(int cols)
      : row_bytes(cols / 2 + kRowPad),
        scale_bytes(cols / kMxGroup),
        bytes(kTileRows * (row_bytes + scale_bytes)) {}
};

struct Barriers {
  std::uint64_t full[kMostStages];
  std::uint64_t empty[kMostStages];
  std::uint64_t parts_full[kFinishers];
  std::uint64_t parts_empty[kFinishers];
};

// Sums of the parts, then the ring, behind the barriers.
struct Shared {
  Barriers* barriers;
  float4* parts;  // [kFinishers][part_stride], of which [parts][eights of rows][32] are in use
  int part_stride;
  unsigned char* ring;

  static constexpr int kFront = 512;
  __host__ __device__ static int parts_bytes(int parts, int tiles) {
    return kFinishers * parts * tiles * 32 * static_cast<int>(sizeof(float4));
  }
  __device__ __forceinline__ Shared(unsigned char* raw, int num_parts, int tiles)
      : barriers(reinterpret_cast<Barriers*>(raw)),
        parts(reinterpret_cast<float4*>(raw + kFront)),
        part_stride(num_parts * tiles * 32),
        ring(raw + kFront + parts_bytes(num_parts, tiles)) {}
};
static_assert(sizeof(Barriers) <= Shared::kFront);

// Groups past L1: they may be read before the kernel ahead has ended.
__device__ __forceinline__ RowGroup ring_group(const ExpertGroups& groups, int i) {
  if (groups.row_ids != nullptr) return {__ldcg(groups.row_ids + i), i, 1};
  const RowGroup* at = groups.groups + i;
  return {__ldcg(&at->expert), __ldcg(&at->first), __ldcg(&at->count)};
}
__device__ __forceinline__ std::int32_t ring_pair(const ExpertGroups& groups, int position) {
  return groups.row_ids != nullptr ? position : __ldcg(groups.pairs + position);
}

// A ring of stages or buffers, seen from one side.
struct Cursor {
  int at = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next(int size) {
    if (++at == size) at = 0, parity ^= 1;
  }
};

// Tiles [first, end) of a block; those of a group are neighbours.
struct Range {
  int first, end, per_group;
  __device__ __forceinline__ Range(const RingArgs& args, int rows_of_group)
      : per_group(args.rows / rows_of_group) {
    const std::int64_t groups =
        args.groups.row_ids != nullptr ? args.groups.num_pairs : __ldcg(args.groups.num_groups);
    first = static_cast<int>(groups * per_group * blockIdx.x / gridDim.x);
    end = static_cast<int>(groups * per_group * (blockIdx.x + 1) / gridDim.x);
  }
  // Calls with(group, first tile of the group, how many).
  template <typename With>
  __device__ __forceinline__ void walk(const ExpertGroups& groups, With&& with) const {
    int index = first / per_group, in_group = first % per_group;
    for (int tile = first; tile < end;) {
      const int run = min(per_group - in_group, end - tile);
      with(ring_group(groups, index), in_group, run);
      tile += run;
      in_group = 0;
      ++index;
    }
  }
};

// The warp that copies. Lanes 0 to 15 bring a row each, 16 and 17 the scales of eight rows.
template <Stage kStage>
__device__ __forceinline__ void copy_weights(const RingArgs& args, const Range& range,
                                             const Shared& shared) {
  const StageLayout layout(args.cols);
  const int lane = threadIdx.x % 32;
  const bool is_scale = lane >= kTileRows, idle = lane >= kTileRows + 2;
  const int half = is_scale ? lane % 2 : lane / 8, row = is_scale ? 0 : lane % 8;
  const int per_row = is_scale ? layout.scale_bytes : args.cols / 2;
  const int bytes = is_scale ? 8 * per_row : per_row;
  const int step = per_row * (kStage == Stage::kGateUp ? 8 : 16);
  const int to = is_scale ? kTileRows * layout.row_bytes + half * bytes : lane * layout.row_bytes;
  const auto start_of = [&](int group) {
    const ExpertEntry& e = args.table[ring_group(args.groups, group).expert];
    const void* data;
    if constexpr (kStage == Stage::kGateUp) {
      data = half == 0 ? (is_scale ? e.w1_scales : e.w1) : (is_scale ? e.w3_scales : e.w3);
    } else {
      data = is_scale ? e.w2_scales : e.w2;
    }
    return static_cast<const unsigned char*>(data) +
           per_row * (row + (kStage == Stage::kGateUp ? 0 : 8 * half));
  };
  Cursor ring;
  int group = range.first / range.per_group, in_group = range.first % range.per_group;
  const unsigned char* next = range.first < range.end ? start_of(group) : nullptr;
  const unsigned char* from = nullptr;
  int left = 0;  // tiles of this group
  for (int tile = range.first; tile < range.end; ++tile) {
    if (left == 0) {
      from = next + static_cast<std::int64_t>(in_group) * step;
      left = range.per_group - in_group;
      in_group = 0;
      if (tile + left < range.end) next = start_of(++group);
    }
    if (tile - range.first == args.stages) {
      // The ring has been filled.
      wait_for_previous_kernel();
      start_next_kernel();
    }
    barrier_wait(&shared.barriers->empty[ring.at], ring.parity ^ 1);
    std::uint64_t* full = &shared.barriers->full[ring.at];
    if (lane == 0) barrier_expect(full, kTileRows * (args.cols / 2 + layout.scale_bytes));
    __syncwarp();
    if (!idle) bulk_load(shared.ring + ring.at * layout.bytes + to, from, bytes, full);
    from += step;
    --left;
    ring.next(args.stages);
  }
  if (range.end - range.first <= args.stages) {
    wait_for_previous_kernel();
    start_next_kernel();
  }
}

__device__ __forceinline__ uint4 load_two_matrices(std::uint32_t row) {
  uint4 r{};
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r.x), "=r"(r.y)
               : "r"(row));
  return r;
}
// An E8M0 byte as f32.
__device__ __forceinline__ float load_scale(std::uint32_t at) {
  std::uint32_t e;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(e) : "r"(at));
  return __uint_as_float(e << 23);
}

// The activations of a group that meet a warp's part of K: x of column 8 n + g, a lane's eight
// elements of each scale group.
template <Stage kStage, int kGroups, int kTiles>
__device__ __forceinline__ void load_rows(const RingArgs& args, const RowGroup& group,
                                          uint4 (&x)[kGroups][kTiles]) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    // A column without a row repeats the last one; its sums are not used.
    const std::int64_t pair = ring_pair(args.groups, group.first + min(8 * n + g, group.count - 1));
    const std::int64_t source = kStage == Stage::kGateUp ? pair / args.top_k : pair;
    const __half* from = args.x + source * args.cols + warp * kGroups * kMxGroup + 8 * t;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      x[j][n] = __ldcg(reinterpret_cast<const uint4*>(from + j * kMxGroup));
    }
  }
}

// A multiplying warp: its part of K of `run` tiles of one group.
template <Stage kStage, int kGroups, int kTiles>
__device__ __forceinline__ void multiply_run(const RingArgs& args, const RowGroup& group, int run,
                                             const Shared& shared, Cursor& ring, Cursor& buffer) {
  const StageLayout layout(args.cols);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint4 x[kGroups][kTiles];
  load_rows<kStage>(args, group, x);
  // Four matrices: rows 0 to 7 and 8 to 15 of a scale group, then of the next one.
  const std::uint32_t base = shared_address(shared.ring);
  const std::uint32_t first_row =
      base + lane % 16 * layout.row_bytes + (warp * kGroups + lane / 16) * 16;
  const std::uint32_t first_scale =
      base + kTileRows * layout.row_bytes + lane / 4 * layout.scale_bytes + warp * kGroups;
  for (int i = 0; i < run; ++i) {
    barrier_wait(&shared.barriers->full[ring.at], ring.parity);
    const std::uint32_t row = first_row + ring.at * layout.bytes;
    const std::uint32_t scale = first_scale + ring.at * layout.bytes;
    float4 sums[kTiles] = {};
#pragma unroll
    for (int j = 0; j < kGroups; j += 2) {
      const uint4 words =
          j + 1 < kGroups ? load_matrices(row + 16 * j) : load_two_matrices(row + 16 * j);
#pragma unroll
      for (int h = 0; h < 2 && j + h < kGroups; ++h) {
        std::uint32_t upper[4], lower[4];
        decode_codes(h == 0 ? words.x : words.z, upper);
        decode_codes(h == 0 ? words.y : words.w, lower);
        const float upper_scale = load_scale(scale + j + h);
        const float lower_scale = load_scale(scale + 8 * layout.scale_bytes + j + h);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const uint4& b = x[j + h][n];
          float4 c{};
          mma_f16(c, {upper[0], lower[0], upper[1], lower[1]}, b.x, b.y);
          mma_f16(c, {upper[2], lower[2], upper[3], lower[3]}, b.z, b.w);
          sums[n].x = fmaf(c.x, upper_scale, sums[n].x);
          sums[n].y = fmaf(c.y, upper_scale, sums[n].y);
          sums[n].z = fmaf(c.z, lower_scale, sums[n].z);
          sums[n].w = fmaf(c.w, lower_scale, sums[n].w);
        }
      }
    }
    barrier_wait(&shared.barriers->parts_empty[buffer.at], buffer.parity ^ 1);
    float4* to = shared.parts + buffer.at * shared.part_stride + warp * kTiles * 32 + lane;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) to[n * 32] = sums[n];
    barrier_arrive(&shared.barriers->parts_full[buffer.at]);
    buffer.next(kFinishers);
    // Only now: the sums have been stored, so that what they were made of has been read. Released
    // before, a stage was written over under loads that were still on their way.
    bulk_store_fence();
    barrier_arrive(&shared.barriers->empty[ring.at]);
    ring.next(args.stages);
  }
}

// A finishing warp's place in the sequence of tiles.
struct Finisher {
  int index;
  int turn = 0;  // whose the next tile is
  std::uint32_t parity = 0;
  __device__ __forceinline__ explicit Finisher(int i) : index(i) {}
  __device__ __forceinline__ bool is_mine() {
    const bool mine = turn == index;
    turn = turn + 1 == kFinishers ? 0 : turn + 1;
    return mine;
  }
};

// The rows of a tile for columns 8 n + 2 t and the next: activation or rounding, and the store.
template <Stage kStage>
__device__ __forceinline__ void store_column(const RingArgs& args, std::int64_t pair, int tile,
                                             float upper, float lower, bool inside) {
  const int g = threadIdx.x % 32 / 4;
  if constexpr (kStage == Stage::kGateUp) {
    const float hidden = quick_glu(args.activation, upper, lower);
    auto* out = static_cast<__half*>(args.out) + pair * args.rows + tile * 8 + mxfp4_position(g);
    if (inside) *out = __float2half_rn(hidden * args.scale);
  } else {
    auto* out = static_cast<bf16*>(args.out) + pair * args.rows + tile * kTileRows + g;
    if (inside) out[0] = from_f32<bf16>(upper), out[8] = from_f32<bf16>(lower);
  }
}

// A finishing warp: its share of `run` tiles of one group, from tile `first` on.
template <Stage kStage, int kTiles>
__device__ __forceinline__ void finish_run(const RingArgs& args, const RowGroup& group, int first,
                                           int run, const Shared& shared, Finisher& finisher) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  // Lane i knows column i.
  const std::int32_t my_pair = ring_pair(args.groups, group.first + min(lane, group.count - 1));
  const float my_unscale = kStage == Stage::kGateUp ? __ldcg(args.unscale + my_pair / args.top_k)
                                                    : kHalfCodeUnscale / args.scale;
  const float4* from = shared.parts + finisher.index * shared.part_stride + lane;
  for (int i = 0; i < run; ++i) {
    if (!finisher.is_mine()) continue;
    barrier_wait(&shared.barriers->parts_full[finisher.index], finisher.parity);
    finisher.parity ^= 1;
#pragma unroll 1
    for (int n = 0; n < kTiles; ++n) {
      float4 sum{};
#pragma unroll 4
      for (int part = 0; part < args.parts; ++part) {
        const float4 add = from[(part * kTiles + n) * 32];
        sum = {sum.x + add.x, sum.y + add.y, sum.z + add.z, sum.w + add.w};
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = 8 * n + 2 * t + c;
        const std::int64_t pair = __shfl_sync(kAll, my_pair, column);
        const float unscale = __shfl_sync(kAll, my_unscale, column);
        store_column<kStage>(args, pair, first + i, (c == 0 ? sum.x : sum.y) * unscale,
                             (c == 0 ? sum.z : sum.w) * unscale, column < group.count);
      }
    }
    barrier_arrive(&shared.barriers->parts_empty[finisher.index]);
  }
}

// Calls with(eights of rows) as a constant: what the group's rows need.
template <int kMost, typename With>
__device__ __forceinline__ void with_tiles(int count, With&& with) {
  if (kMost == 1 || count <= 8) {
    with(std::integral_constant<int, 1>{});
  } else if (kMost == 2 || count <= 16) {
    with(std::integral_constant<int, std::min(kMost, 2)>{});
  } else {
    with(std::integral_constant<int, kMost>{});
  }
}

template <Stage kStage, typename D>
__global__ void __launch_bounds__(D::kThreads, 1) expert_ring(RingArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char raw[];
  const Shared shared(raw, args.parts, D::kTiles);
  if (threadIdx.x == 0) {
    for (int i = 0; i < args.stages; ++i) {
      barrier_init(&shared.barriers->full[i], 1);
      barrier_init(&shared.barriers->empty[i], 32 * args.parts);
    }
    for (int i = 0; i < kFinishers; ++i) {
      barrier_init(&shared.barriers->parts_full[i], 32 * args.parts);
      barrier_init(&shared.barriers->parts_empty[i], 32);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const Range range(args, kStage == Stage::kGateUp ? 8 : 16);
  const int warp = threadIdx.x / 32;
  if (warp >= D::kParts) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(D::kHelperRegisters));
    if (warp == D::kParts) {
      copy_weights<kStage>(args, range, shared);
      return;
    }
    wait_for_previous_kernel();
    Finisher finisher(warp - D::kParts - 1);
    range.walk(args.groups, [&](const RowGroup& group, int first, int run) {
      with_tiles<D::kTiles>(group.count, [&](auto tiles) {
        finish_run<kStage, tiles()>(args, group, first, run, shared, finisher);
      });
    });
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(D::kMultiplierRegisters));
    if (warp >= args.parts) return;
    wait_for_previous_kernel();
    Cursor ring, buffer;
    range.walk(args.groups, [&](const RowGroup& group, int, int run) {
      with_tiles<D::kTiles>(group.count, [&](auto tiles) {
        multiply_run<kStage, D::kGroups, tiles()>(args, group, run, shared, ring, buffer);
      });
    });
  }
#endif
}

template <Stage kStage, typename D>
void launch_ring(Context& context, RingArgs args) {
  const StageLayout layout(args.cols);
  args.parts = args.cols / kMxGroup / D::kGroups;
  const std::size_t front = Shared::kFront + Shared::parts_bytes(args.parts, D::kTiles);
  args.stages =
      static_cast<int>(std::min<std::size_t>(kMostStages, (kMostShared - front) / layout.bytes));
  launch({.name = kStage == Stage::kGateUp ? "expert_mlp: gate and up" : "expert_mlp: down",
          .grid = dim3(static_cast<unsigned>(context.device.num_sms)),
          .block = dim3(D::kThreads),
          .shared_bytes = front + static_cast<std::size_t>(args.stages) * layout.bytes,
          .stream = context.stream,
          .overlap = true},
         expert_ring<kStage, D>, args);
}

// Scale groups of a part, where K has up to 16 parts; fewer, longer parts leave registers for more
// rows.
constexpr int kGateUpGroups = 7, kDownGroups = 6, kMostParts = 16;

template <Stage kStage>
void run_stage(Context& context, const RingArgs& args) {
  constexpr int kGroups = kStage == Stage::kGateUp ? kGateUpGroups : kDownGroups;
  switch (args.groups.group_rows) {
    case 8:
      return launch_ring<kStage, Division<kGroups, kMostParts, 1>>(context, args);
    case 16:
      return launch_ring<kStage, Division<2 * kGroups, kMostParts / 2, 2>>(context, args);
    default:
      return launch_ring<kStage, Division<2 * kGroups, kMostParts / 2, 3>>(context, args);
  }
}

// K in an even number of parts, up to the most.
bool has_parts(std::int64_t cols, int groups) {
  const std::int64_t part = groups * kMxGroup;
  return cols % (2 * part) == 0 && cols / part <= kMostParts;
}

}  // namespace

bool ring_serves(const Context& context, std::int64_t width, std::int64_t inner) {
  return context.device.is_hopper() && has_parts(width, kGateUpGroups) &&
         has_parts(inner, kDownGroups);
}

void ring_experts(Context& context, const GroupedExperts& experts) {
  const HalfRows rows = make_half_rows(context, experts);
  const int width = static_cast<int>(experts.width), inner = static_cast<int>(experts.inner);
  run_stage<Stage::kGateUp>(
      context, {experts.table, experts.groups, experts.top_k, rows.z, rows.unscale, rows.scale,
                width, inner, rows.hidden, experts.activation, 0, 0});
  finish_hidden(context, experts, rows);
  run_stage<Stage::kDown>(
      context, {experts.table, experts.groups, experts.top_k, rows.hidden, nullptr, rows.scale,
                inner, width, experts.down, experts.activation, 0, 0});
}

}  // namespace baltoro::cuda
