// Chunkwise KDA prefill on Hopper for the head of the released models, bf16 activations: a parallel
// pass over all blocks, a walk over the blocks of each sequence, output norm and gate.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/sm90/kda_prefill.cuh"
#include "cuda/sm90/kda_scan.cuh"
#include "cuda/sm90/kda_solve.cuh"

namespace baltoro::cuda {
namespace {

// Records that are in memory at once: of one window, or of the one that is walked and the one that is
// made beside it.
constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 30;
// The walk of few heads leaves most SMs free for the other passes, so that such batches go in several
// windows, if they are not too short to be worth their launches.
constexpr std::int64_t kWindows = 8, kLeastRecords = 384;

// A kernel that starts beside the one ahead, whose results it does not need, has it end first: what
// follows on the stream waits for this one alone.
__device__ __forceinline__ bool is_last_of_grid() {
  return blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1 && blockIdx.z == gridDim.z - 1;
}

// Grid: (head, block - window.begin).
template <bool kBounded>
__global__ void __launch_bounds__(kPrepareThreads, kBounded ? 3 : 2)
    prepare_blocks(KdaParams<bf16> p, BlockWindow window) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char raw[];
  PrepareShared& s = *reinterpret_cast<PrepareShared*>(raw);
  const int head = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, tile = warp / 2;
  const int column = 64 * (warp % 2) + 2 * lane;
  const DeviceBlock block = p.blocks[window.begin + static_cast<int>(blockIdx.y)];
  const DeviceSequence sequence = p.sequences[block.sequence];
  BlockRecord& out = window.record(static_cast<int>(blockIdx.y), head, p.heads);
  const auto input = [&](int i) { return conv_channel(p, head, i * kHead); };
  const std::int64_t stride = static_cast<std::int64_t>(p.heads) * kHead;
  const int thread = static_cast<int>(threadIdx.x);
  copy_rows(BlockInput(input(0).rows, stride, block), s.q_left);
  copy_rows(BlockInput(input(1).rows, stride, block), s.k_left);
  copy_rows(BlockInput(p.decay_logits + static_cast<std::int64_t>(head) * kHead, stride, block),
            s.right);
  if (thread < 2 * kPiecesBefore) {
    const int i = thread >= kPiecesBefore ? 1 : 0, piece = thread - i * kPiecesBefore;
    store_before(s.before[i], piece, load_before(p, input(i), block, sequence, piece));
  }
  if (thread < kBlock) {
    const std::int64_t at = static_cast<std::int64_t>(block.first_row + thread) * p.heads + head;
    s.beta[thread] = thread < block.num_rows ? sigmoid(to_f32(p.beta_logits[at])) : 0.0f;
  }
  copy_async_wait();
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    convolve(s.q_left + i * kBlock * kHead, s.before[i], input(i).taps, block.num_rows, 16 * warp,
             lane);
  }
  const TilePlaces places(tile, column);
  float2 sums[kTile];
  sum_decays<kBounded>(p, s.right, places, min(kTile, block.num_rows - kTile * tile),
                       static_cast<std::int64_t>(head) * kHead + column, sums);
  *reinterpret_cast<float2*>(&s.total[tile][column]) = sums[kTile - 1];
  __syncthreads();
  // Each warp has 16 rows of queries or of keys.
  const int is_key = warp % 2;
  const bf16* own = is_key ? s.k_left : s.q_left;
  store_norms(multiply_pairs(own, tile * kTile, own, tile * kTile, lane, nullptr, 0), lane,
              s.norms[is_key] + tile * kTile);
  if (threadIdx.x < kHead) {
    const int d = static_cast<int>(threadIdx.x);
    out.decay[d] = exp2_fast(s.total[0][d] + s.total[1][d] + s.total[2][d] + s.total[3][d]);
  }
  __syncthreads();
  PairTile inside{};
  if constexpr (!kBounded) inside = pairs_by_halves(s, sums, places, warp, lane);
  std::uint32_t ahead[kTile];
  store_factors<kBounded>(s, out, sums, places, tile, column, ahead);
  if constexpr (kBounded) {
    __syncthreads();
    inside = multiply_pairs(own, tile * kTile, s.right, tile * kTile, lane, nullptr, 0);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kTile; ++r) places.word(s.right, r) = ahead[r];
  store_pairs<true>(s, out, inside, !is_key, tile * kTile, tile * kTile, lane);
  __syncthreads();
  // Pairs of different tiles are dealt in turn; warps with fewer invert the diagonal tiles.
  if (warp >= kTiles) invert_tile(s.a, (warp - kTiles) * kTile, lane);
  for (int unit = warp; unit < 12; unit += 8) {
    const int pair = unit / 2;  // (1,0) (2,0) (2,1) (3,0) (3,1) (3,2)
    const int i = pair < 1 ? 1 : (pair < 3 ? 2 : 3);
    const int j = pair - i * (i - 1) / 2;
    const PairTile product =
        multiply_pairs(unit % 2 == 0 ? s.k_left : s.q_left, i * kTile, s.right, j * kTile, lane,
                       s.total[min(j + 1, kTiles - 1)], i - j - 1);
    store_pairs<false>(s, out, product, unit % 2 == 1, i * kTile, j * kTile, lane);
    if (unit % 2 == 0) clear_pairs(out, j * kTile, i * kTile, lane);
  }
  const BlockInput values(input(2).rows, stride, block);
  InputRows held;
  load_rows(values, held);
  uint4 held_before{};
  if (thread < kPiecesBefore) held_before = load_before(p, input(2), block, sequence, thread);
  __syncthreads();
  store_rows_of(values, held, s.right);
  if (thread < kPiecesBefore) store_before(s.before[0], thread, held_before);
  if (warp < 2) merge_halves(s.a, warp, lane);
  __syncthreads();
  store_inverse(s, warp, lane);
  convolve(s.right, s.before[0], input(2).taps, block.num_rows, 16 * warp, lane);
  __syncthreads();
  apply_inverse(s, out, warp, lane);
  bulk_store_fence();
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(out.w, s.k_left, sizeof(out.w));
  if (is_last_of_grid()) wait_for_previous_kernel();
#endif
}

// out = norm(o) gate in place. Grid: (block - window.begin, eight heads, kNormRows rows); 16 threads a
// head.
constexpr int kNormRows = 4;
__global__ void __launch_bounds__(128) norm_and_gate(KdaParams<bf16> p, BlockWindow window) {
  start_next_kernel();
  const int head = static_cast<int>(blockIdx.y) * 8 + static_cast<int>(threadIdx.x) / 16;
  const DeviceBlock block = p.blocks[window.begin + static_cast<int>(blockIdx.x)];
  const int first = static_cast<int>(blockIdx.z) * kNormRows;
  const int column = static_cast<int>(threadIdx.x) % 16 * 8;
  uint4 words[kNormRows], gates[kNormRows];
  std::int64_t at[kNormRows];
#pragma unroll
  for (int r = 0; r < kNormRows; ++r) {
    const std::int64_t row = block.first_row + min(first + r, block.num_rows - 1);
    at[r] = (row * p.heads + min(head, p.heads - 1)) * kHead + column;
    words[r] = *reinterpret_cast<const uint4*>(p.out + at[r]);
    gates[r] = {};
    if (p.gate != nullptr) gates[r] = *reinterpret_cast<const uint4*>(p.gate + at[r]);
  }
#pragma unroll
  for (int r = 0; r < kNormRows; ++r) {
    std::uint32_t* o = &words[r].x;
    const std::uint32_t* gate = &gates[r].x;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 value = unpack_bf16(o[i]);
      squares += value.x * value.x + value.y * value.y;
    }
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    }
    const float scale = 1.0f / sqrtf(squares * (1.0f / kHead) + p.norm_eps);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 norm = *reinterpret_cast<const float2*>(p.o_norm + column + 2 * i);
      float2 value = unpack_bf16(o[i]);
      value = {value.x * scale * norm.x, value.y * scale * norm.y};
      if (p.gate != nullptr) {
        const float2 g = unpack_bf16(gate[i]);
        value = {value.x * sigmoid_fast(g.x), value.y * sigmoid_fast(g.y)};
      }
      o[i] = pack_bf16(value.x, value.y);
    }
    if (head < p.heads && first + r < block.num_rows) {
      *reinterpret_cast<uint4*>(p.out + at[r]) = words[r];
    }
  }
  if (is_last_of_grid()) wait_for_previous_kernel();
}

// One window's launches. Prepare and norm start beside the walk ahead of them on the stream, which
// leaves SMs free.
struct Rounds {
  const Context& context;
  const KdaParams<bf16>& p;
  const DeviceBatch& batch;

  void prepare(const BlockWindow& window) const {
    launch({.name = "kda_mix, blocks",
            .grid = dim3(static_cast<unsigned>(p.heads),
                         static_cast<unsigned>(window.end - window.begin)),
            .block = dim3(kPrepareThreads),
            .shared_bytes = sizeof(PrepareShared),
            .stream = context.stream,
            .overlap = window.begin > 0},
           p.lower_bound < 0 ? prepare_blocks<true> : prepare_blocks<false>, p, window);
  }
  template <int kWarps>
  void walk(const BlockWindow& window) const {
    const dim3 grid(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences),
                    8 / kWarps);
    with_state_type(p, [&](auto state) {
      launch({.name = "kda_mix, walk over blocks",
              .grid = grid,
              .block = dim3(32 * kWarps),
              .shared_bytes = sizeof(ScanShared),
              .stream = context.stream},
             scan_blocks<kWarps, decltype(state)>, p, window);
    });
  }
  void norm(const BlockWindow& window) const {
    launch({.name = "kda_mix, norm and gate",
            .grid = dim3(static_cast<unsigned>(window.end - window.begin), ceil_div(p.heads, 8),
                         kBlock / kNormRows),
            .block = dim3(128),
            .stream = context.stream,
            .overlap = window.end < batch.num_blocks},
           norm_and_gate, p, window);
  }
};

// Blocks of rows of one window.
std::int64_t window_blocks(std::int64_t heads, std::int64_t num_blocks, bool few) {
  const std::int64_t bytes = heads * static_cast<std::int64_t>(sizeof(BlockRecord));
  std::int64_t wanted = num_blocks;
  if (few) {
    wanted = std::max<std::int64_t>(ceil_div(num_blocks, kWindows), ceil_div(kLeastRecords, heads));
  }
  wanted = std::min(wanted, num_blocks);
  const bool fits = wanted * bytes * (wanted < num_blocks ? 2 : 1) <= kMaxRecordBytes;
  return fits ? wanted : std::max<std::int64_t>(1, kMaxRecordBytes / 2 / bytes);
}

}  // namespace

bool has_kda_prefill(const Context& context) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, prepare_blocks<true>), "look at the KDA kernels");
  return context.device.is_hopper() && attributes.ptxVersion >= 90;
}

void kda_prefill(Context& context, const KdaParams<bf16>& p, const DeviceBatch& batch) {
  // Few heads: several blocks of threads share one, for it is the walk's latency that counts.
  const bool few =
      static_cast<std::int64_t>(p.heads) * batch.num_sequences < context.device.num_sms / 2;
  const std::int64_t most = window_blocks(p.heads, batch.num_blocks, few);
  const std::int64_t buffers = most < batch.num_blocks ? 2 : 1;
  context.scratch.begin(Scratch::bytes_of<BlockRecord>(buffers * most * p.heads));
  BlockRecord* records = context.scratch.take<BlockRecord>(buffers * most * p.heads);
  const auto window_at = [&](std::int64_t begin) {
    return BlockWindow{
        records + begin / most % 2 * most * p.heads, static_cast<std::int32_t>(begin),
        static_cast<std::int32_t>(std::min<std::int64_t>(batch.num_blocks, begin + most))};
  };
  const Rounds rounds{context, p, batch};
  for (std::int64_t begin = 0; begin < batch.num_blocks; begin += most) {
    rounds.prepare(window_at(begin));
    if (few) {
      rounds.walk<4>(window_at(begin));
    } else {
      rounds.walk<8>(window_at(begin));
    }
    if (begin > 0) rounds.norm(window_at(begin - most));
  }
  rounds.norm(window_at((batch.num_blocks - 1) / most * most));
}

}  // namespace baltoro::cuda
