// Chunkwise KDA of prompts for every head, activation type and device: a parallel pass over all
// blocks, a walk over the blocks of each sequence, output norm and gate.
#include <algorithm>

#include "cuda/device/reduce.cuh"
#include "cuda/kda_chunk_prepare.cuh"
#include "cuda/kda_chunk_walk.cuh"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

// Of the records that are in memory at once.
constexpr std::int64_t kMaxRecordBytes = std::int64_t{256} << 20;
constexpr std::size_t kMaxSharedBytes = 99 << 10;
constexpr int kNormThreads = 256;

// Conv history of a head in the live and boundary slots, once all blocks have read the old one.
template <typename T>
__device__ void store_histories(const KdaParams<T>& p, const DeviceSequence& sequence, int head) {
  const std::int64_t end = sequence.start_pos + sequence.num_rows;
  const std::int64_t boundary = end / kBlockTokens * kBlockTokens - sequence.start_pos;
  for (int c = static_cast<int>(threadIdx.x); c < 2 * p.dk + p.dv;
       c += static_cast<int>(blockDim.x)) {
    const ConvChannel<T> channel = conv_channel(p, head, c);
    if (sequence.boundary_slot >= 0 && boundary > 0) {
      store_history(p, sequence, channel, boundary, sequence.boundary_slot);
    }
    store_history(p, sequence, channel, sequence.num_rows, sequence.state_slot);
  }
}

// out = norm(o) gate, a warp a row, and the conv history of a sequence that ends here. Grid: (head,
// block - window.begin, tile of rows).
template <typename T>
__global__ void __launch_bounds__(kNormThreads) norm_chunks(KdaParams<T> p, ChunkWindow window) {
  constexpr int kMost = 8;  // values of a lane: heads of at most 256
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.x), first = static_cast<int>(blockIdx.z) * kTileRows;
  const int index = window.begin + static_cast<int>(blockIdx.y);
  const DeviceBlock block = p.blocks[index];
  const float* o = window.record(index, head, p.heads).u;
  const int end = min(block.num_rows, first + kTileRows);
  for (int row = first + warp; row < end; row += kNormThreads / 32) {
    const std::int64_t at =
        (static_cast<std::int64_t>(block.first_row + row) * p.heads + head) * p.dv;
    float values[kMost] = {}, gates[kMost] = {};
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int c = lane + 32 * i;
      if (c >= p.dv) break;
      values[i] = round_as<T>(o[row * window.values + c]);
      if (p.gate != nullptr) gates[i] = to_f32(p.gate[at + c]);
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) squares = fmaf(values[i], values[i], squares);
    const float mean = warp_sum(squares) / static_cast<float>(p.dv);
    const float scale = 1.0f / sqrtf(mean + p.norm_eps);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int c = lane + 32 * i;
      if (c >= p.dv) break;
      const float gate = p.gate == nullptr ? 1.0f : sigmoid(gates[i]);
      p.out[at + c] = from_f32<T>(values[i] * scale * p.o_norm[c] * gate);
    }
  }
  if (first == 0 && index + 1 == p.first_block[block.sequence + 1]) {
    store_histories(p, p.sequences[block.sequence], head);
  }
}

template <int kColumns, typename T>
void walk(const Context& context, const KdaParams<T>& p, const DeviceBatch& batch,
          const ChunkWindow& window) {
  const ChunkStates states{p.state, p.sequences, p.blocks, p.first_block, p.heads, p.dk, p.dv};
  with_state_type(p, [&](auto state) {
    launch({.name = "kda_mix, walk over chunks",
            .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences),
                         static_cast<unsigned>(window.values / (8 * kColumns))),
            .block = dim3(kWalkThreads),
            .shared_bytes = walk_shared_bytes(window.keys, kColumns),
            .stream = context.stream},
           walk_chunks<decltype(state), kColumns>, states, window);
  });
}

// Value columns of a lane of the walk: so many that its blocks of threads still fill the SMs.
int lane_columns(const Context& context, const ChunkWindow& window, std::int64_t walks) {
  for (const int columns : {4, 2}) {
    const std::int64_t blocks = walks * (window.values / (8 * columns));
    const bool fits = walk_shared_bytes(window.keys, columns) <= kMaxSharedBytes;
    if (fits && blocks >= context.device.num_sms) return columns;
  }
  return 1;
}

}  // namespace

template <typename T>
void kda_chunk(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  ChunkWindow window{.records = nullptr,
                     .begin = 0,
                     .end = 0,
                     .keys = static_cast<int>(ceil_div(p.dk, kChannels)) * kChannels,
                     .values = static_cast<int>(ceil_div(p.dv, 32)) * 32};
  if (walk_shared_bytes(window.keys, 1) > kMaxSharedBytes) {
    unsupported("kda_mix", "prompts of key heads above 768");
  }
  const std::int64_t floats = window.record_floats() * p.heads;
  const std::int64_t most = std::clamp<std::int64_t>(
      kMaxRecordBytes / (floats * static_cast<std::int64_t>(sizeof(float))), 1, batch.num_blocks);
  context.scratch.begin(Scratch::bytes_of<float>(most * floats));
  window.records = context.scratch.take<float>(most * floats);
  const int columns =
      lane_columns(context, window, static_cast<std::int64_t>(p.heads) * batch.num_sequences);
  for (std::int64_t begin = 0; begin < batch.num_blocks; begin += most) {
    window.begin = static_cast<std::int32_t>(begin);
    window.end = static_cast<std::int32_t>(std::min<std::int64_t>(batch.num_blocks, begin + most));
    const dim3 grid(static_cast<unsigned>(p.heads),
                    static_cast<unsigned>(window.end - window.begin));
    launch({.name = "kda_mix, chunks",
            .grid = grid,
            .block = dim3(kChunkThreads),
            .shared_bytes = sizeof(PairShared),
            .stream = context.stream},
           prepare_chunks<T>, p, window);
    switch (columns) {
      case 4:
        walk<4>(context, p, batch, window);
        break;
      case 2:
        walk<2>(context, p, batch, window);
        break;
      default:
        walk<1>(context, p, batch, window);
        break;
    }
    launch({.name = "kda_mix, norm and gate of chunks",
            .grid = dim3(grid.x, grid.y, kChunkTiles),
            .block = dim3(kNormThreads),
            .stream = context.stream},
           norm_chunks<T>, p, window);
  }
}

template void kda_chunk<float>(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_chunk<bf16>(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
