// Products of few rows of x, where the time is that of reading the weights: each weight goes once
// from memory to the registers in which the tensor core wants it. bf16 weights and activations.
#include "cuda/device/load.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/product_tile.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

// How a block divides its outputs among its warps; K is divided among kPartials of them.
template <int kTilesV, int kTokenTilesV, int kWarpsNV, int kStagesV, bool kStageXV>
struct Plan {
  static constexpr int kTiles = kTilesV;            // of kTile weight rows, per warp
  static constexpr int kTokenTiles = kTokenTilesV;  // of kToken rows of x, per warp
  static constexpr int kWarpsN = kWarpsNV;          // side by side along the outputs
  static constexpr int kStages = kStagesV;          // steps in flight or in use
  static constexpr bool kStageX = kStageXV;         // x is loaded ahead like the weights
  static constexpr int kThreads = 32 * kWarpsN * kPartials;
  static constexpr int kRows = kWarpsN * kTiles * kTile;  // of a block, all weights
  static constexpr int kTokens = kTokenTiles * kToken;
  // The pitch spreads the fragments over the banks.
  static constexpr int kPitch = kRows + 4;
  struct Shared {
    float sums[kPartials][kTokens][kPitch];
  };
  static_assert(sizeof(Shared) <= 99 << 10);
};

template <typename P>
struct Step {
  uint4 w[P::kTiles][kSlices][2];  // rows g and g + 8 of each tile
  uint4 x[P::kStageX ? P::kTokenTiles : 1][kSlices];
};

// Where a thread reads.
template <typename P>
struct Sources {
  const bf16* w[P::kTiles][2];
  const bf16* x;          // row g of the first token tile, at this thread's k
  std::int64_t x_stride;  // between token tiles
  int tokens_left;        // rows of x from row g on
  int k_left;             // columns from this thread's k on
};

template <typename P>
__device__ __forceinline__ void load_weights(Step<P>& step, const Sources<P>& from, int k) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    const int at = k + s * kSliceK;
#pragma unroll
    for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        step.w[i][s][h] = at < from.k_left ? load_stream(from.w[i][h] + at) : uint4{0, 0, 0, 0};
      }
    }
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
      for (int j = 0; j < P::kTokenTiles; ++j) step.x[j][s] = load_x(from, j, k + s * kSliceK);
    }
  }
}

template <typename P>
__device__ __forceinline__ void add_step(float4 (&sum)[P::kTiles][P::kTokenTiles],
                                         const Step<P>& step, const Sources<P>& from, int k) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int j = 0; j < P::kTokenTiles; ++j) {
      uint4 x;
      if constexpr (P::kStageX) {
        x = step.x[j][s];
      } else {
        x = load_x(from, j, k + s * kSliceK);
      }
#pragma unroll
      for (int i = 0; i < P::kTiles; ++i) add_slice(sum[i][j], step.w[i][s], x);
    }
  }
}

template <typename P, typename Rows>
__device__ __forceinline__ Sources<P> sources(const Product& p, int index, std::int64_t n0,
                                              std::int64_t m0) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % P::kWarpsN;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  Sources<P> from;
#pragma unroll
  for (int i = 0; i < P::kTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = (warp * P::kTiles + i) * kTile + g + 8 * h;
      const WeightView& weight = p.outputs[index + Rows::weight(row)].weight;
      // Rows past the end read the last one; what they give is not stored.
      const std::int64_t n = min(n0 + Rows::row_of_weight(row), weight.rows - 1);
      from.w[i][h] = static_cast<const bf16*>(weight.data) + n * p.cols + t * kLoadK;
    }
  }
  from.x = static_cast<const bf16*>(p.x) + (m0 + g) * p.cols + t * kLoadK;
  from.x_stride = kToken * p.cols;
  from.tokens_left = static_cast<int>(p.rows - m0) - g;
  from.k_left = static_cast<int>(p.cols) - t * kLoadK;
  return from;
}

template <typename P, Finish kFinish>
__global__ void __launch_bounds__(P::kThreads) stream(const __grid_constant__ Product p) {
  constexpr int kWeights = kFinish == Finish::kGlu ? 2 : 1;
  using Rows = BlockRows<kWeights, P::kTiles>;
  constexpr int kRowsEach = P::kRows / kWeights;
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename P::Shared*>(memory);

  int block = static_cast<int>(blockIdx.x);
  const int index = weight_of_block(p, kRowsEach, block);
  const std::int64_t n0 = std::int64_t{block} * kRowsEach;
  const std::int64_t m0 = std::int64_t{blockIdx.y} * P::kTokens;
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
      for (int j = 0; j < kWeights; ++j) y[j] += at[j * Rows::kTilesEach * kTile];
    }
    finish<bf16, kFinish>(p, p.outputs[index], (m0 + token) * weight_rows + n0 + r, y[0],
                          y[kWeights - 1]);
  }
}

template <typename P, Finish kFinish>
void launch_plan(Context& context, const Product& product) {
  constexpr int kRowsEach = P::kRows / (kFinish == Finish::kGlu ? 2 : 1);
  const Launch how{.name = "product of few rows",
                   .grid = dim3(num_blocks(product, kRowsEach), ceil_div(product.rows, P::kTokens)),
                   .block = dim3(P::kThreads),
                   .shared_bytes = sizeof(typename P::Shared),
                   .stream = context.stream,
                   .overlap = true};
  launch(how, stream<P, kFinish>, product);
}

// All plans sum in the same order.
template <Finish kFinish>
void launch_finish(Context& context, const Product& product) {
  if (product.rows > kToken) return launch_plan<Plan<2, 4, 2, 2, false>, kFinish>(context, product);
  // Smaller blocks where the larger would leave multiprocessors without work.
  if constexpr (kFinish != Finish::kGlu) {
    if (num_blocks(product, 2 * kTile) < static_cast<unsigned>(context.device.num_sms)) {
      return launch_plan<Plan<1, 1, 1, 3, true>, kFinish>(context, product);
    }
  }
  launch_plan<Plan<2, 1, 1, 2, true>, kFinish>(context, product);
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
