// Chunkwise KDA prefill on Hopper for the head of the released models, bf16 activations: a parallel
// pass over all blocks, a walk over the blocks of each sequence, output norm and gate.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/sm90/kda_prefill.cuh"
#include "cuda/sm90/kda_scan.cuh"
#include "cuda/sm90/kda_solve.cuh"

namespace baltoro::cuda {
namespace {

// Records that are in memory at once; a longer batch goes in several rounds.
constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 30;

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
  const TileRows rows{block.first_row + kTile * tile,
                      block.first_row - sequence.first_row + kTile * tile,
                      min(kTile, block.num_rows - kTile * tile)};
  const TilePlaces places(tile, column);
  const std::int64_t channel = static_cast<std::int64_t>(head) * kHead + column;
  const std::int64_t stride = static_cast<std::int64_t>(p.heads) * kHead;
  std::uint32_t logits[kTile];
  load_tile(p.decay_logits + rows.first_row * stride + channel, stride, rows.count, logits);
  const std::int64_t slot = sequence.state_slot;
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    ConvTile conv;
    load_conv(p, rows, conv_channel(p, head, i * kHead + column), slot, conv);
    convolve(conv, rows.count, places, s.q_left + i * kBlock * kHead);
  }
  float2 sums[kTile];
  sum_decays<kBounded>(p, logits, rows.count, channel, sums);
  *reinterpret_cast<float2*>(&s.total[tile][column]) = sums[kTile - 1];
  if (threadIdx.x < kBlock) {
    const int r = static_cast<int>(threadIdx.x);
    const std::int64_t at = static_cast<std::int64_t>(block.first_row + r) * p.heads + head;
    s.beta[r] = r < block.num_rows ? sigmoid(to_f32(p.beta_logits[at])) : 0.0f;
  }
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
  store_pairs(s, out, inside, !is_key, tile * kTile, tile * kTile, lane);
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
    store_pairs(s, out, product, unit % 2 == 1, i * kTile, j * kTile, lane);
    if (unit % 2 == 0) clear_pairs(out, j * kTile, i * kTile, lane);
  }
  ConvTile conv;
  load_conv(p, rows, conv_channel(p, head, 2 * kHead + column), slot, conv);
  __syncthreads();
  convolve(conv, rows.count, places, s.right);
  merge_inverses(s.a, warp, lane);
  apply_inverse(s, out, warp, lane);
  bulk_store_fence();
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(out.w, s.q_left, sizeof(out.w));
#endif
}

// Conv history of the live and boundary slots, after every block has read the old one.
__global__ void store_histories(KdaParams<bf16> p) {
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (sequence.is_generated || c >= conv_channels(p)) return;
  const int per_head = 3 * kHead;
  const ConvChannel<bf16> channel =
      conv_channel(p, static_cast<int>(c / per_head), static_cast<int>(c % per_head));
  const std::int64_t end = sequence.start_pos + sequence.num_rows;
  const std::int64_t boundary = end / kBlockTokens * kBlockTokens - sequence.start_pos;
  if (sequence.boundary_slot >= 0 && boundary > 0) {
    store_history(p, sequence, channel, boundary, sequence.boundary_slot);
  }
  store_history(p, sequence, channel, sequence.num_rows, sequence.state_slot);
}

// out = norm(o) gate in place. Grid: (row, eight heads); 16 threads a head.
__global__ void __launch_bounds__(128)
    norm_and_gate(KdaParams<bf16> p, const std::int32_t* row_sequence) {
  const int head = static_cast<int>(blockIdx.y) * 8 + static_cast<int>(threadIdx.x) / 16;
  const std::int64_t row = blockIdx.x;
  if (p.sequences[row_sequence[row]].is_generated) return;
  const bool exists = head < p.heads;
  const int column = static_cast<int>(threadIdx.x) % 16 * 8;
  const std::int64_t at = (row * p.heads + (exists ? head : 0)) * kHead + column;
  uint4 words = *reinterpret_cast<const uint4*>(p.out + at);
  uint4 gates{};
  if (p.gate != nullptr) gates = *reinterpret_cast<const uint4*>(p.gate + at);
  std::uint32_t* o = &words.x;
  const std::uint32_t* gate = &gates.x;
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
  if (exists) *reinterpret_cast<uint4*>(p.out + at) = words;
}

template <int kWarps>
void scan(const Context& context, const KdaParams<bf16>& p, const DeviceBatch& batch,
          const BlockWindow& window) {
  with_state_type(p, [&](auto state) {
    launch({.name = "kda_mix, walk over blocks",
            .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences),
                         8 / kWarps),
            .block = dim3(32 * kWarps),
            .shared_bytes = sizeof(ScanShared),
            .stream = context.stream},
           scan_blocks<kWarps, decltype(state)>, p, window);
  });
}

}  // namespace

bool has_kda_prefill(const Context& context) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, prepare_blocks<true>), "look at the KDA kernels");
  return context.device.is_hopper() && attributes.ptxVersion >= 90;
}

void kda_prefill(Context& context, const KdaParams<bf16>& p, const DeviceBatch& batch) {
  const auto record_bytes = static_cast<std::int64_t>(sizeof(BlockRecord));
  const std::int64_t fit = std::max<std::int64_t>(1, kMaxRecordBytes / (record_bytes * p.heads));
  const std::int64_t most = std::min<std::int64_t>(fit, batch.num_blocks);
  context.scratch.begin(Scratch::bytes_of<BlockRecord>(most * p.heads));
  BlockRecord* records = context.scratch.take<BlockRecord>(most * p.heads);
  // Few heads: several blocks of threads share one, for it is the walk's latency that counts.
  const bool few =
      static_cast<std::int64_t>(p.heads) * batch.num_sequences < context.device.num_sms / 2;
  for (std::int64_t begin = 0; begin < batch.num_blocks; begin += most) {
    const std::int64_t end = std::min<std::int64_t>(batch.num_blocks, begin + most);
    const BlockWindow window{records, static_cast<std::int32_t>(begin),
                             static_cast<std::int32_t>(end)};
    launch({.name = "kda_mix, blocks",
            .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(end - begin)),
            .block = dim3(kPrepareThreads),
            .shared_bytes = sizeof(PrepareShared),
            .stream = context.stream},
           p.lower_bound < 0 ? prepare_blocks<true> : prepare_blocks<false>, p, window);
    if (few) {
      scan<4>(context, p, batch, window);
    } else {
      scan<8>(context, p, batch, window);
    }
  }
  launch(
      {.name = "kda_mix, conv history",
       .grid = dim3(ceil_div(p.heads * 3 * kHead, 256), static_cast<unsigned>(batch.num_sequences)),
       .block = dim3(256),
       .stream = context.stream},
      store_histories, p);
  launch({.name = "kda_mix, norm and gate",
          .grid = dim3(static_cast<unsigned>(batch.num_rows), ceil_div(p.heads, 8)),
          .block = dim3(128),
          .stream = context.stream},
         norm_and_gate, p, batch.row_sequence);
}

}  // namespace baltoro::cuda
