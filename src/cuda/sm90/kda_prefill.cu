// Chunkwise KDA prefill on Hopper for the head of the released models, bf16 activations: a parallel
// pass over all blocks, a walk over the blocks of each sequence, output norm and gate.
#include <algorithm>

#include "cuda/device/reduce.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_prefill.cuh"
#include "cuda/sm90/kda_scan.cuh"
#include "cuda/sm90/kda_solve.cuh"

namespace baltoro::cuda {
namespace {

// Records that are in memory at once; a longer batch goes in several rounds.
constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 30;

struct DeviceRows {
  const std::int32_t* sequence;  // [count]
  std::int32_t count;
};

// Grid: (head, block - window.begin).
template <bool kBounded>
__global__ void __launch_bounds__(kPrepareThreads, 2)
    prepare_blocks(KdaParams<bf16> p, BlockWindow window) {
#if __CUDA_ARCH__ >= 900
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
  const std::int64_t slot = sequence.state_slot;

  std::uint32_t q[kTile], k[kTile];
  convolve_tile(p, rows, conv_channel(p, head, column), slot, q);
  store_squares(q, lane, s.squares[0][warp % 2] + kTile * tile);
  convolve_tile(p, rows, conv_channel(p, head, kHead + column), slot, k);
  store_squares(k, lane, s.squares[1][warp % 2] + kTile * tile);
  {
    std::uint32_t v[kTile];
    convolve_tile(p, rows, conv_channel(p, head, 2 * kHead + column), slot, v);
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      *reinterpret_cast<std::uint32_t*>(s.v + head_offset(kTile * tile + r, column)) = v[r];
    }
  }
  float2 sums[kTile];
  sum_decays(p, rows, head, column, sums);
  *reinterpret_cast<float2*>(&s.total[tile][column]) = sums[kTile - 1];
  if (threadIdx.x < kBlock) {
    const int r = static_cast<int>(threadIdx.x);
    const std::int64_t at = static_cast<std::int64_t>(block.first_row + r) * p.heads + head;
    s.beta[r] = r < block.num_rows ? sigmoid(to_f32(p.beta_logits[at])) : 0.0f;
  }
  __syncthreads();
  if (threadIdx.x < 2 * kBlock) {
    const int kind = static_cast<int>(threadIdx.x) / kBlock;
    const int r = static_cast<int>(threadIdx.x) % kBlock;
    s.norms[kind][r] = 1.0f / sqrtf(s.squares[kind][0][r] + s.squares[kind][1][r] + kL2NormEps);
  } else {
    const int d = static_cast<int>(threadIdx.x) - 2 * kBlock;
    out.operands.decay[d] =
        exp2_fast(s.total[0][d] + s.total[1][d] + s.total[2][d] + s.total[3][d]);
  }
  __syncthreads();
  normalize(q, s.norms[0] + kTile * tile);
  normalize(k, s.norms[1] + kTile * tile);
  PairTile inside{};
  if constexpr (!kBounded) inside = pairs_by_halves(s, q, k, sums, column, warp, lane);
  store_factors<kBounded>(s, out.operands, q, k, sums, tile, column);
  __syncthreads();

  // Warps pair up for a tile's rows: keys and queries. Pairs of different tiles are dealt in turn.
  if constexpr (kBounded) {
    inside = multiply_pairs(warp % 2 == 0 ? s.k_left : s.q_left, tile * kTile, s.k_right,
                            tile * kTile, lane, nullptr, 0);
  }
  store_pairs(s, out.operands, inside, warp % 2 == 1, tile * kTile, tile * kTile, lane);
  for (int unit = warp; unit < 12; unit += 8) {
    const int pair = unit / 2;  // (1,0) (2,0) (2,1) (3,0) (3,1) (3,2)
    const int i = pair < 1 ? 1 : (pair < 3 ? 2 : 3);
    const int j = pair - i * (i - 1) / 2;
    const PairTile product =
        multiply_pairs(unit % 2 == 0 ? s.k_left : s.q_left, i * kTile, s.k_ahead, j * kTile, lane,
                       s.total[min(j + 1, kTiles - 1)], i - j - 1);
    store_pairs(s, out.operands, product, unit % 2 == 1, i * kTile, j * kTile, lane);
  }
  __syncthreads();
  invert(s.a, warp, lane);
  apply_inverse(s, out, warp, lane);
  bulk_store_fence();
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(out.operands.w, s.q_left, sizeof(out.operands.w));
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

// out = norm(o) gate in place; a warp a head of a row.
__global__ void __launch_bounds__(256) norm_and_gate(KdaParams<bf16> p, DeviceRows rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (item >= static_cast<std::int64_t>(rows.count) * p.heads) return;
  const std::int64_t row = item / p.heads;
  if (p.sequences[rows.sequence[row]].is_generated) return;
  const std::int64_t at = item * kHead + 4 * lane;
  const uint2 o = *reinterpret_cast<const uint2*>(p.out + at);
  const float2 low = unpack_bf16(o.x), high = unpack_bf16(o.y);
  const float squares = low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y;
  const float scale = 1.0f / sqrtf(warp_sum(squares) * (1.0f / kHead) + p.norm_eps);
  const float4 norm = reinterpret_cast<const float4*>(p.o_norm)[lane];
  float4 factor{scale * norm.x, scale * norm.y, scale * norm.z, scale * norm.w};
  if (p.gate != nullptr) {
    const uint2 gate = *reinterpret_cast<const uint2*>(p.gate + at);
    const float2 g0 = unpack_bf16(gate.x), g1 = unpack_bf16(gate.y);
    factor = {factor.x * sigmoid_fast(g0.x), factor.y * sigmoid_fast(g0.y),
              factor.z * sigmoid_fast(g1.x), factor.w * sigmoid_fast(g1.y)};
  }
  *reinterpret_cast<uint2*>(p.out + at) = {pack_bf16(low.x * factor.x, low.y * factor.y),
                                           pack_bf16(high.x * factor.z, high.y * factor.w)};
}

template <int kWarps>
void scan(const Context& context, const KdaParams<bf16>& p, const DeviceBatch& batch,
          const BlockWindow& window) {
  launch({.name = "kda_mix, walk over blocks",
          .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences),
                       8 / kWarps),
          .block = dim3(32 * kWarps),
          .shared_bytes = sizeof(ScanShared),
          .stream = context.stream},
         scan_blocks<kWarps>, p, window);
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
      scan<2>(context, p, batch, window);
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
          .grid = dim3(ceil_div(static_cast<std::int64_t>(batch.num_rows) * p.heads, 8)),
          .block = dim3(256),
          .stream = context.stream},
         norm_and_gate, p, DeviceRows{batch.row_sequence, batch.num_rows});
}

}  // namespace baltoro::cuda
