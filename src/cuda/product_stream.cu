// Products of few rows of x, where the time is that of reading the weights: each weight goes once
// from memory to the registers in which the tensor core wants it. bf16 activations; weights bf16, or
// MXINT8, which become bf16 in registers.
#include <algorithm>
#include <type_traits>

#include "cuda/device/load.cuh"
#include "cuda/device/mx_vector.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/product_tile.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

// How a block divides its outputs among its warps; K is divided among kPartials of them.
template <WeightFormat kFormatV, int kTilesV, int kTokenTilesV, int kWarpsNV, int kStagesV,
          bool kStageXV>
struct Plan {
  static constexpr WeightFormat kFormat = kFormatV;
  static constexpr int kTiles = kTilesV;            // of kTile weight rows, per warp
  static constexpr int kTokenTiles = kTokenTilesV;  // of kToken rows of x, per warp
  static constexpr int kWarpsN = kWarpsNV;          // side by side along the outputs
  static constexpr int kStages = kStagesV;          // steps in flight or in use
  static constexpr bool kStageX = kStageXV;         // x is loaded ahead like the weights
  static constexpr int kThreads = 32 * kWarpsN * kPartials;
  static constexpr int kBlocksASm = 512 / kThreads;       // leaves 128 registers a thread
  static constexpr int kRows = kWarpsN * kTiles * kTile;  // of a block, all weights
  static constexpr int kTokens = kTokenTiles * kToken;
  // The pitch spreads the fragments over the banks.
  static constexpr int kPitch = kRows + 4;
  struct Shared {
    float sums[kPartials][kTokens][kPitch];
  };
  static_assert(sizeof(Shared) <= 99 << 10);
};

// How a thread reads its share of a step of a weight's row: kSlices times kLoadK values, kApart
// columns apart.
template <WeightFormat kFormat>
struct Row;

template <>
struct Row<WeightFormat::kBf16> {
  static constexpr int kApart = kSliceK;
  struct Share {
    uint4 values[kSlices];
    __device__ __forceinline__ uint4 bf16s(int slice) const { return values[slice]; }
  };
  const bf16* values;

  static __device__ __forceinline__ int first_col(int t) { return t * kLoadK; }
  static __device__ __forceinline__ Row of(const WeightView& w, std::int64_t n, int col) {
    return {static_cast<const bf16*>(w.data) + n * w.cols + col};
  }
  __device__ __forceinline__ Share load(int k, int k_left) const {
    Share share;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      const int at = k + s * kApart;
      share.values[s] = at < k_left ? load_stream(values + at) : uint4{0, 0, 0, 0};
    }
    return share;
  }
};

template <>
struct Row<WeightFormat::kMxint8> {
  static constexpr int kApart = kLoadK;
  struct Share {
    uint4 codes;  // of one group
    std::uint32_t scale;
    __device__ __forceinline__ uint4 bf16s(int slice) const {
      const uint2 half = slice == 0 ? uint2{codes.x, codes.y} : uint2{codes.z, codes.w};
      return mxint8_to_bf16(half, scale);
    }
  };
  const std::int8_t* codes;
  const std::uint8_t* scales;

  static __device__ __forceinline__ int first_col(int t) { return t * kSlices * kLoadK; }
  static __device__ __forceinline__ Row of(const WeightView& w, std::int64_t n, int col) {
    return {static_cast<const std::int8_t*>(w.data) + n * w.cols + col,
            w.scales + n * (w.cols / kMxGroup) + col / kMxGroup};
  }
  __device__ __forceinline__ Share load(int k, int k_left) const {
    const bool inside = k < k_left;
    return {inside ? load_stream(codes + k) : uint4{0, 0, 0, 0},
            inside ? scales[k / static_cast<int>(kMxGroup)] : 0u};
  }
};

template <typename P>
struct Step {
  typename Row<P::kFormat>::Share w[P::kTiles][2];  // rows g and g + 8 of each tile
  uint4 x[P::kStageX ? P::kTokenTiles : 1][kSlices];
};

// Where a thread reads.
template <typename P>
struct Sources {
  Row<P::kFormat> w[P::kTiles][2];
  const bf16* x;          // row g of the first token tile, at this thread's k
  std::int64_t x_stride;  // between token tiles
  int tokens_left;        // rows of x from row g on
  int k_left;             // columns from this thread's k on
};

template <typename P>
__device__ __forceinline__ void load_weights(Step<P>& step, const Sources<P>& from, int k) {
#pragma unroll
  for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) step.w[i][h] = from.w[i][h].load(k, from.k_left);
  }
}

template <typename P>
__device__ __forceinline__ uint4 load_x(const Sources<P>& from, int j, int at) {
  const bool inside = at < from.k_left && j * kToken < from.tokens_left;
  if (!inside) return {0, 0, 0, 0};
  return *reinterpret_cast<const uint4*>(from.x + j * from.x_stride + at);
}

template <typename P>
__device__ __forceinline__ void load_step_x(Step<P>& step, const Sources<P>& from, int k) {
  if constexpr (P::kStageX) {
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
#pragma unroll
      for (int j = 0; j < P::kTokenTiles; ++j)
        step.x[j][s] = load_x(from, j, k + s * Row<P::kFormat>::kApart);
    }
  }
}

template <typename P>
__device__ __forceinline__ void add_step(float4 (&sum)[P::kTiles][P::kTokenTiles],
                                         const Step<P>& step, const Sources<P>& from, int k) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    uint4 w[P::kTiles][2];
#pragma unroll
    for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) w[i][h] = step.w[i][h].bf16s(s);
    }
#pragma unroll
    for (int j = 0; j < P::kTokenTiles; ++j) {
      uint4 x;
      if constexpr (P::kStageX) {
        x = step.x[j][s];
      } else {
        x = load_x(from, j, k + s * Row<P::kFormat>::kApart);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < P::kTiles; ++i) add_half(sum[i][j], w[i], x, half);
      }
    }
  }
}

template <typename P, typename Rows>
__device__ __forceinline__ Sources<P> sources(const Product& p, int index, std::int64_t n0,
                                              std::int64_t m0) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % P::kWarpsN;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int col = Row<P::kFormat>::first_col(t);
  Sources<P> from;
#pragma unroll
  for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = (warp * P::kTiles + i) * kTile + g + 8 * h;
      const WeightView& weight = p.outputs[index + Rows::weight(row)].weight;
      // Rows past the end read the last one; what they give is not stored.
      const std::int64_t n = min(n0 + Rows::row_of_weight(row), weight.rows - 1);
      from.w[i][h] = Row<P::kFormat>::of(weight, n, col);
    }
  }
  from.x = static_cast<const bf16*>(p.x) + (m0 + g) * p.cols + col;
  from.x_stride = kToken * p.cols;
  from.tokens_left = static_cast<int>(p.rows - m0) - g;
  from.k_left = static_cast<int>(p.cols) - col;
  return from;
}

// Of the weights of a block. What all multiprocessors ask for stays below half of the L2 cache.
constexpr int kPrefetchBytes = 96 << 10;

// Whether the block is among those that start together; later ones have nobody to wait for.
template <typename P>
__device__ __forceinline__ bool is_first_wave() {
  constexpr unsigned kMostSms = 132;
  return blockIdx.y * gridDim.x + blockIdx.x < kMostSms * P::kBlocksASm;
}

// Asks for what follows in the rows of a block, behind the `begun` columns that are under way, so
// that it is in the L2 cache when the kernel ahead has ended.
template <typename P, typename Rows>
__device__ __forceinline__ void prefetch_rows(const Product& p, int index, std::int64_t n0,
                                              int begun) {
  constexpr int kLine = 128;
  constexpr int kLines = kPrefetchBytes / P::kRows / kLine;
  for (int i = static_cast<int>(threadIdx.x); i < P::kRows * kLines; i += P::kThreads) {
    const int row = i / kLines;
    const WeightView& weight = p.outputs[index + Rows::weight(row)].weight;
    const std::int64_t n = min(n0 + Rows::row_of_weight(row), weight.rows - 1);
    const std::int64_t row_bytes = weight.row_bytes();
    const std::int64_t at = begun * row_bytes / weight.cols + i % kLines * kLine;
    if (at >= row_bytes) continue;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const std::uint8_t*>(weight.data) +
                                                  n * row_bytes + at));
  }
}

template <typename P, Finish kFinish>
__global__ void __launch_bounds__(P::kThreads, P::kBlocksASm)
    stream(const __grid_constant__ Product p) {
  constexpr int kWeights = kFinish == Finish::kGlu ? 2 : 1;
  using Rows = std::conditional_t<(kWeights > P::kTiles), HalfTileRows,
                                  BlockRows<std::min(kWeights, P::kTiles), P::kTiles>>;
  constexpr int kRowsEach = P::kRows / kWeights;
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename P::Shared*>(memory);

  int block = static_cast<int>(blockIdx.y);
  const int index = weight_of_block(p, kRowsEach, block);
  const std::int64_t n0 = std::int64_t{block} * kRowsEach;
  const std::int64_t m0 = std::int64_t{blockIdx.x} * P::kTokens;
  const Sources<P> from = sources<P, Rows>(p, index, n0, m0);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_n = warp % P::kWarpsN, warp_k = warp / P::kWarpsN;

  constexpr int kStride = kPartials * kStepK;
  constexpr int kAhead = P::kStages - 1;
  float4 sum[P::kTiles][P::kTokenTiles] = {};
  Step<P> steps[P::kStages];
  int k = warp_k * kStepK;
#pragma unroll
  for (int s = 0; s < kAhead; ++s) load_weights<P>(steps[s], from, k + s * kStride);
  if (is_first_wave<P>()) prefetch_rows<P, Rows>(p, index, n0, kAhead * kStride);
  // Of a short sum all weights are under way.
  const bool is_short = p.cols <= kAhead * kStride;
  if (is_short) start_next_kernel();
  wait_for_previous_kernel();
#pragma unroll
  for (int s = 0; s < kAhead; ++s) load_step_x<P>(steps[s], from, k + s * kStride);
  for (; k < p.cols; k += P::kStages * kStride) {
#pragma unroll
    for (int s = 0; s < P::kStages; ++s) {
      Step<P>& next = steps[(s + kAhead) % P::kStages];
      load_weights<P>(next, from, k + (s + kAhead) * kStride);
      load_step_x<P>(next, from, k + (s + kAhead) * kStride);
      add_step<P>(sum, steps[s], from, k + s * kStride);
    }
  }

  if (!is_short) start_next_kernel();
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < P::kTokenTiles; ++j) {
      const int row = (warp_n * P::kTiles + i) * kTile + g, token = j * kToken + 2 * t;
      shared.sums[warp_k][token][row] = sum[i][j].x;
      shared.sums[warp_k][token + 1][row] = sum[i][j].y;
      shared.sums[warp_k][token][row + 8] = sum[i][j].z;
      shared.sums[warp_k][token + 1][row + 8] = sum[i][j].w;
    }
  }
  __syncthreads();
  const std::int64_t weight_rows = p.outputs[index].weight.rows;
  const int tokens = static_cast<int>(min(std::int64_t{P::kTokens}, p.rows - m0));
  for (int e = static_cast<int>(threadIdx.x); e < tokens * kRowsEach; e += P::kThreads) {
    const int token = e / kRowsEach, r = e % kRowsEach;
    if (n0 + r >= weight_rows) continue;
    float y[kWeights] = {};
#pragma unroll
    for (int w = 0; w < kPartials; ++w) {
      const float* at = &shared.sums[w][token][Rows::row_of_block(r)];
#pragma unroll
      for (int j = 0; j < kWeights; ++j) y[j] += at[j * Rows::kApart];
    }
    finish<bf16, kFinish>(p, p.outputs[index], (m0 + token) * weight_rows + n0 + r, y[0],
                          y[kWeights - 1]);
  }
}

template <typename P, Finish kFinish>
void launch_plan(Context& context, const Product& product) {
  constexpr int kRowsEach = P::kRows / (kFinish == Finish::kGlu ? 2 : 1);
  const Launch how{.name = "product of few rows",
                   // Blocks that read the same weights run together.
                   .grid = dim3(ceil_div(product.rows, P::kTokens), num_blocks(product, kRowsEach)),
                   .block = dim3(P::kThreads),
                   .shared_bytes = sizeof(typename P::Shared),
                   .stream = context.stream,
                   .overlap = !product.fresh_weights};
  launch(how, stream<P, kFinish>, product);
}

// All plans of a format sum in the same order. `few`: larger blocks would leave multiprocessors
// without work.
template <Finish kFinish>
void launch_bf16(Context& context, const Product& product, bool few) {
  constexpr WeightFormat kFormat = WeightFormat::kBf16;
  if (product.rows > 2 * kToken) {
    return launch_plan<Plan<kFormat, 2, 4, 2, 2, false>, kFinish>(context, product);
  }
  if (few && product.rows <= kToken) {
    return launch_plan<Plan<kFormat, 1, 1, 1, 3, true>, kFinish>(context, product);
  }
  if constexpr (kFinish != Finish::kGlu) {
    if (few) return launch_plan<Plan<kFormat, 1, 2, 1, 3, true>, kFinish>(context, product);
  }
  if (product.rows > kToken) {
    return launch_plan<Plan<kFormat, 2, 2, 1, 2, true>, kFinish>(context, product);
  }
  launch_plan<Plan<kFormat, 2, 1, 1, 2, true>, kFinish>(context, product);
}

template <Finish kFinish>
void launch_mxint8(Context& context, const Product& product, bool few) {
  constexpr WeightFormat kFormat = WeightFormat::kMxint8;
  if (product.rows > kToken) {
    return launch_plan<Plan<kFormat, 2, 4, 2, 2, false>, kFinish>(context, product);
  }
  if constexpr (kFinish != Finish::kGlu) {
    if (few) return launch_plan<Plan<kFormat, 1, 1, 1, 4, true>, kFinish>(context, product);
  }
  launch_plan<Plan<kFormat, 2, 1, 1, 3, true>, kFinish>(context, product);
}

template <Finish kFinish>
void launch_finish(Context& context, const Product& product) {
  const int rows_each = kFinish == Finish::kGlu ? kTile : 2 * kTile;
  const bool few = num_blocks(product, rows_each) < static_cast<unsigned>(context.device.num_sms);
  if (product.outputs[0].weight.format == WeightFormat::kMxint8) {
    return launch_mxint8<kFinish>(context, product, few);
  }
  launch_bf16<kFinish>(context, product, few);
}

}  // namespace

void multiply_stream(Context& context, const Product& product) {
  switch (product.finish) {
    case Finish::kStore:
      return launch_finish<Finish::kStore>(context, product);
    case Finish::kAdd:
      return launch_finish<Finish::kAdd>(context, product);
    case Finish::kGlu:
      return launch_finish<Finish::kGlu>(context, product);
    case Finish::kLogits:
      return launch_finish<Finish::kLogits>(context, product);
  }
}

}  // namespace baltoro::cuda
