// The router: logits with true f32 products, then one block a row for the choice.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device/activation.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/weight_row.cuh"
#include "cuda/launch.cuh"
#include "ops/route.h"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr std::int64_t kMaxGrid = 65535;

struct Choice {
  const float* bias;  // [E]
  std::int64_t num_experts;
  int top_k;
  bool renormalize;
  float scale;
};

// scores [M, E] = sigmoid(W x): one warp an element.
template <typename T>
__global__ void score(WeightView weight, const T* x, std::int64_t rows, float* scores) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (e >= weight.rows) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float sum = 0;
    for (std::int64_t col = threadIdx.x % 32; col < weight.cols; col += 32) {
      sum = fmaf(weight_at(weight, e, col), to_f32(x[row * weight.cols + col]), sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) scores[row * weight.rows + e] = sigmoid(sum);
  }
}

// Orders by descending key, then by ascending index: larger is better. NaN sorts above all.
__device__ __forceinline__ unsigned long long rank_of(float key, std::int64_t index) {
  const unsigned bits = __float_as_uint(key + 0.0f);  // -0 equals 0
  const unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 |
         (0xffffffffu - static_cast<unsigned>(index));
}

__device__ __forceinline__ unsigned long long warp_max_rank(unsigned long long value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

// One warp a row: each round takes the best below the last one taken.
__global__ void choose(Choice choice, const float* scores, std::int64_t rows, std::int32_t* ids,
                       float* weights) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  scores += row * choice.num_experts;
  ids += row * choice.top_k;
  weights += row * choice.top_k;
  bool failed = false;
  for (std::int64_t e = lane; e < choice.num_experts; e += 32) {
    failed |= isnan(scores[e] + choice.bias[e]);
  }
  if (__any_sync(0xffffffffu, failed)) {
    for (int i = lane; i < choice.top_k; i += 32) {
      ids[i] = i;
      weights[i] = __int_as_float(0x7fc00000);
    }
    return;
  }
  float total = 0;
  unsigned long long last = ~0ull;
  for (int i = 0; i < choice.top_k; ++i) {
    unsigned long long best = 0;
    for (std::int64_t e = lane; e < choice.num_experts; e += 32) {
      const unsigned long long rank = rank_of(scores[e] + choice.bias[e], e);
      if (rank < last && rank > best) best = rank;
    }
    last = warp_max_rank(best);
    const auto id = static_cast<std::int32_t>(0xffffffffu - static_cast<unsigned>(last));
    total += scores[id];
    if (lane == 0) ids[i] = id;
  }
  __syncwarp();
  const float divisor = choice.renormalize ? total + 1e-20f : 1.0f;
  for (int i = lane; i < choice.top_k; i += 32) {
    weights[i] = scores[ids[i]] / divisor * choice.scale;
  }
}

template <typename T>
void run(Context& context, const RouteArgs& args) {
  const std::int64_t rows = args.x.rows(), experts = args.weight.rows;
  context.scratch.begin(Scratch::bytes_of<float>(rows * experts));
  auto* scores = context.scratch.take<float>(rows * experts);
  const dim3 grid(ceil_div(experts, kWarps), static_cast<unsigned>(std::min(rows, kMaxGrid)));
  launch({"route: scores", grid, kThreads, 0, context.stream}, score<T>, args.weight,
         static_cast<const T*>(args.x.data), rows, scores);
  const Choice choice{args.bias, experts, args.top_k, args.renormalize, args.scale};
  launch({"route: choice", ceil_div(rows, kWarps), kThreads, 0, context.stream}, choose, choice,
         static_cast<const float*>(scores), rows, args.ids, args.weights);
}

}  // namespace

void route(Context& context, const RouteArgs& args) {
  if (args.x.rows() == 0) return;
  if (context.activation == DType::kBf16) {
    run<bf16>(context, args);
  } else {
    run<float>(context, args);
  }
}

}  // namespace baltoro::cuda
