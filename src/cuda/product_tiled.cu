// Products of many rows of x by tiles in shared memory, on any tensor core since compute capability
// 8.0: where cuBLASLt is absent, or its order of summation is not wanted. bf16 weights and
// activations; each sum has the bits that product_stream.cu gives.
#include "cuda/device/async_copy.cuh"
#include "cuda/device/product_tile.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

constexpr int kTiles = 4;       // of kTile weight rows, per warp
constexpr int kTokenTiles = 4;  // of kToken rows of x, per warp
constexpr int kWarpsN = 2;
constexpr int kWarpsM = 4;
constexpr int kThreads = 32 * kWarpsN * kWarpsM;
constexpr int kRows = kWarpsN * kTiles * kTile;
constexpr int kTokens = kWarpsM * kTokenTiles * kToken;
constexpr int kStages = 3;
constexpr int kChunks = kStepK / kLoadK;  // of a row in a stage
constexpr int kPitch = kRows + 4;         // spreads the fragments over the banks
// Token tiles whose blocks run together, so that their x stays in L2 while the weights pass.
constexpr int kTokenGroup = 8;

union Shared {
  struct Stage {
    uint4 w[kRows][kChunks];
    uint4 x[kTokens][kChunks];
  } stages[kStages];
  float sums[kTokens][kPitch];
};
static_assert(sizeof(Shared) <= 99 << 10);

// Where chunk `chunk` of a row lies: eight threads that read two rows meet all banks.
__device__ __forceinline__ int place(int row, int chunk) { return chunk ^ (row & 1) * 4; }

// The steps of K in the order of product_tile.cuh: all of one partial sum, then the next.
struct StepOrder {
  int num_steps;
  int step = 0;

  // Moves on; true where that ends a partial sum.
  __device__ __forceinline__ bool next() {
    step += kPartials;
    if (step < num_steps) return false;
    step = step % kPartials + 1;
    return true;
  }
};

// Copies the steps of a block's tile, kChunks threads a row.
template <typename Rows>
class Loader {
 public:
  __device__ Loader(const Product& p, int index, std::int64_t n0, std::int64_t m0)
      : cols_(static_cast<int>(p.cols)) {
    const int last_token = static_cast<int>(min(std::int64_t{kTokens}, p.rows - m0)) - 1;
    const auto* x = static_cast<const bf16*>(p.x) + m0 * p.cols;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int row = row_ + i * kRowsAPass;
      // Rows past the end read the last one; what they give is not stored.
      const WeightView& weight = p.outputs[index + Rows::weight(row)].weight;
      const std::int64_t n = min(n0 + Rows::row_of_weight(row), weight.rows - 1);
      w_[i] = static_cast<const bf16*>(weight.data) + n * p.cols + chunk_ * kLoadK;
      x_[i] = x + std::int64_t{min(row, last_token)} * p.cols + chunk_ * kLoadK;
    }
  }

  __device__ __forceinline__ void load(Shared::Stage& stage, int step) const {
    const int k = step * kStepK;
    const bool inside = k + chunk_ * kLoadK < cols_;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int row = row_ + i * kRowsAPass;
      copy_async(&stage.w[row][place(row, chunk_)], w_[i] + (inside ? k : 0), inside);
      copy_async(&stage.x[row][place(row, chunk_)], x_[i] + (inside ? k : 0), inside);
    }
  }

 private:
  static_assert(kRows == kTokens);
  static constexpr int kRowsAPass = kThreads / kChunks;
  static constexpr int kPasses = kRows / kRowsAPass;
  const int chunk_ = static_cast<int>(threadIdx.x) % kChunks;
  const int row_ = static_cast<int>(threadIdx.x) / kChunks;
  int cols_;
  const bf16* w_[kPasses];
  const bf16* x_[kPasses];
};

using Sums = float4[kTiles][kTokenTiles];

__device__ __forceinline__ void add_step(Sums& sum, const Shared::Stage& stage, int warp_n,
                                         int warp_m) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    const int chunk = place(g, s * 4 + t);
    uint4 w[kTiles][2];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        w[i][h] = stage.w[(warp_n * kTiles + i) * kTile + g + 8 * h][chunk];
      }
    }
    uint4 x[kTokenTiles];
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
      x[j] = stage.x[(warp_m * kTokenTiles + j) * kToken + g][chunk];
    }
    // All sums once before any of them again: an mma takes long to end.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) add_half(sum[i][j], w[i], x[j], half);
      }
    }
  }
}

// total += sum; sum = 0.
__device__ __forceinline__ void end_partial(Sums& total, Sums& sum) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
      float4 &to = total[i][j], &from = sum[i][j];
      to = {to.x + from.x, to.y + from.y, to.z + from.z, to.w + from.w};
      from = {};
    }
  }
}

__device__ __forceinline__ void share(Shared& shared, const Sums& total, int warp_n, int warp_m) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
      const int token = (warp_m * kTokenTiles + j) * kToken + 2 * t;
      const int row = (warp_n * kTiles + i) * kTile + g;
      shared.sums[token][row] = total[i][j].x;
      shared.sums[token + 1][row] = total[i][j].y;
      shared.sums[token][row + 8] = total[i][j].z;
      shared.sums[token + 1][row + 8] = total[i][j].w;
    }
  }
}

template <Finish kFinish>
__global__ void __launch_bounds__(kThreads)
    tiled(const __grid_constant__ Product p, int num_weight_blocks) {
  constexpr int kWeights = kFinish == Finish::kGlu ? 2 : 1;
  using Rows = BlockRows<kWeights, kTiles>;
  constexpr int kRowsEach = kRows / kWeights;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory);

  const int num_token_tiles = static_cast<int>((p.rows + kTokens - 1) / kTokens);
  const int group = static_cast<int>(blockIdx.x) / (kTokenGroup * num_weight_blocks);
  const int in_group = static_cast<int>(blockIdx.x) % (kTokenGroup * num_weight_blocks);
  const int group_size = min(kTokenGroup, num_token_tiles - group * kTokenGroup);
  int block = in_group / group_size;
  const std::int64_t m0 = std::int64_t{group * kTokenGroup + in_group % group_size} * kTokens;
  const int index = weight_of_block(p, kRowsEach, block);
  const std::int64_t n0 = std::int64_t{block} * kRowsEach;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_n = warp % kWarpsN, warp_m = warp / kWarpsN;

  const Loader<Rows> loader(p, index, n0, m0);
  const int num_steps = static_cast<int>((p.cols + kStepK - 1) / kStepK);
  StepOrder loaded{num_steps}, used{num_steps};
  int loads = 0;
  const auto load_next = [&] {
    if (loads < num_steps) {
      loader.load(shared.stages[loads % kStages], loaded.step);
      loaded.next();
    }
    ++loads;
    end_copies();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load_next();
  Sums sum = {}, total = {};
  for (int i = 0; i < num_steps; ++i) {
    wait_copies<kStages - 2>();
    __syncthreads();
    load_next();
    add_step(sum, shared.stages[i % kStages], warp_n, warp_m);
    if (used.next()) end_partial(total, sum);
  }
  wait_copies<0>();
  __syncthreads();
  share(shared, total, warp_n, warp_m);
  __syncthreads();

  const std::int64_t weight_rows = p.outputs[index].weight.rows;
  const int tokens = static_cast<int>(min(std::int64_t{kTokens}, p.rows - m0));
  for (int e = static_cast<int>(threadIdx.x); e < tokens * kRowsEach; e += kThreads) {
    const int token = e / kRowsEach, r = e % kRowsEach;
    if (n0 + r >= weight_rows) continue;
    const float* y = &shared.sums[token][Rows::row_of_block(r)];
    finish<bf16, kFinish>(p, p.outputs[index], (m0 + token) * weight_rows + n0 + r, y[0],
                          y[(kWeights - 1) * Rows::kApart]);
  }
}

template <Finish kFinish>
void launch_finish(Context& context, const Product& product) {
  const unsigned blocks = num_blocks(product, kRows / (kFinish == Finish::kGlu ? 2 : 1));
  const Launch how{.name = "product of many rows",
                   .grid = dim3(blocks * ceil_div(product.rows, kTokens)),
                   .block = dim3(kThreads),
                   .shared_bytes = sizeof(Shared),
                   .stream = context.stream};
  launch(how, tiled<kFinish>, product, static_cast<int>(blocks));
}

}  // namespace

void multiply_tiled(Context& context, const Product& product) {
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
