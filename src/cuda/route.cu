// The router: logits, then one warp a row for scores, choice and weights.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device/load.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"
#include "ops/route.h"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr unsigned kAll = 0xffffffffu;

struct Choice {
  const float* logits;  // [M, E]
  const float* bias;    // [E]
  std::int64_t rows;
  std::int64_t num_experts;
  int top_k;
  bool renormalize;
  float scale;
  std::int32_t* ids;  // [M, top_k]
  float* weights;     // [M, top_k]
};

// One row of it.
struct RowChoice {
  const float* logits;
  std::int32_t* ids;
  float* weights;

  __device__ RowChoice(const Choice& c, std::int64_t row)
      : logits(c.logits + row * c.num_experts),
        ids(c.ids + row * c.top_k),
        weights(c.weights + row * c.top_k) {}
};

// The sigmoid without the branches of an exact division, to an ulp: most of the time of a choice.
__device__ __forceinline__ float score_of(float logit) {
  const float d = 1.0f + expf(-logit);
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(d));
  return d < 1e38f ? r * fmaf(-d, r, 2.0f) : r;
}

// A key is the biased score as an integer of the same order, above 0; 0 is no expert.
__device__ __forceinline__ unsigned key_of(float biased) {
  const unsigned bits = __float_as_uint(biased + 0.0f);  // -0 equals 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Whether the key of expert `id` comes before another's: ties go to the lower index.
__device__ __forceinline__ bool before(unsigned key, unsigned id, unsigned other,
                                       unsigned other_id) {
  return key > other || (key == other && id < other_id);
}

// A row that cannot be ranked: NaN weights make the failure visible downstream.
__device__ void choose_nothing(const Choice& c, const RowChoice& row) {
  for (int i = threadIdx.x % 32; i < c.top_k; i += 32) {
    row.ids[i] = i;
    row.weights[i] = __int_as_float(0x7fc00000);
  }
}

// Writes the weights of row.ids, which this warp has written.
__device__ void weigh(const Choice& c, const RowChoice& row) {
  __syncwarp();
  float total = 0;
  for (int i = threadIdx.x % 32; i < c.top_k; i += 32) total += score_of(row.logits[row.ids[i]]);
  const float divisor = c.renormalize ? warp_sum(total) + 1e-20f : 1.0f;
  for (int i = threadIdx.x % 32; i < c.top_k; i += 32) {
    row.weights[i] = score_of(row.logits[row.ids[i]]) / divisor * c.scale;
  }
}

// The top_k-th largest of the lanes' values; ties in lane order. top_k <= 32.
__device__ __forceinline__ unsigned kth_of_lanes(unsigned value, int top_k) {
  const int lane = threadIdx.x % 32;
  int rank = 0;
#pragma unroll
  for (int other = 0; other < 32; ++other) {
    rank += before(__shfl_sync(kAll, value, other), other, value, lane);
  }
  return __shfl_sync(kAll, value, __ffs(__ballot_sync(kAll, rank == top_k - 1)) - 1);
}

// The largest keys of the lanes bound the top_k-th key from below. The few experts at or above the
// bound, in `list` [E], find their ranks by counting.
template <int kPerLane>
__device__ void choose_row(const Choice& c, const RowChoice& row, uint2* list) {
  const unsigned lane = threadIdx.x % 32;
  const auto count = static_cast<unsigned>(c.num_experts);
  unsigned keys[kPerLane];
  unsigned best = 0;
  bool failed = false;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const unsigned e = lane + 32 * i;
    keys[i] = 0;
    if (e >= count) continue;
    const float biased = score_of(row.logits[e]) + c.bias[e];
    failed |= isnan(biased);
    keys[i] = key_of(biased);
    best = max(best, keys[i]);
  }
  if (__any_sync(kAll, failed)) return choose_nothing(c, row);
  const unsigned bound = kth_of_lanes(best, c.top_k);
  int listed = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const bool in = keys[i] >= bound;
    const unsigned mask = __ballot_sync(kAll, in);
    if (in) list[listed + __popc(mask & ((1u << lane) - 1))] = {keys[i], lane + 32 * i};
    listed += __popc(mask);
  }
  __syncwarp();
  for (int i = static_cast<int>(lane); i < listed; i += 32) {
    const uint2 mine = list[i];
    int rank = 0;
    for (int j = 0; j < listed; ++j) rank += before(list[j].x, list[j].y, mine.x, mine.y);
    if (rank < c.top_k) row.ids[rank] = static_cast<std::int32_t>(mine.y);
  }
  weigh(c, row);
}

template <int kPerLane>
__global__ void __launch_bounds__(kThreads) choose(Choice c) {
  __shared__ uint2 lists[kWarps][32 * kPerLane];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row < c.rows) choose_row<kPerLane>(c, RowChoice(c, row), lists[threadIdx.x / 32]);
}

// Any number of experts and of chosen ones: each round takes the best after the last one taken.
__global__ void __launch_bounds__(kThreads) choose_plain(Choice c) {
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (r >= c.rows) return;
  const RowChoice row(c, r);
  const auto count = static_cast<unsigned>(c.num_experts);
  bool failed = false;
  for (unsigned e = threadIdx.x % 32; e < count; e += 32) {
    failed |= isnan(score_of(row.logits[e]) + c.bias[e]);
  }
  if (__any_sync(kAll, failed)) return choose_nothing(c, row);
  unsigned last = kAll, last_id = 0;
  for (int i = 0; i < c.top_k; ++i) {
    unsigned best = 0, best_id = kAll;
    for (unsigned e = threadIdx.x % 32; e < count; e += 32) {
      const unsigned key = key_of(score_of(row.logits[e]) + c.bias[e]);
      const bool left = i == 0 || before(last, last_id, key, e);
      if (left && before(key, e, best, best_id)) best = key, best_id = e;
    }
    last = __reduce_max_sync(kAll, best);
    last_id = __reduce_min_sync(kAll, best == last ? best_id : kAll);
    if (threadIdx.x % 32 == 0) row.ids[i] = static_cast<std::int32_t>(last_id);
  }
  weigh(c, row);
}

// sum + the products of eight bf16 with eight others, which f32 holds exactly.
__device__ __forceinline__ float dot8(const uint4& a, const uint4& b, float sum) {
  const unsigned as[] = {a.x, a.y, a.z, a.w}, bs[] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(as[i] << 16), __uint_as_float(bs[i] << 16), sum);
    sum = fmaf(__uint_as_float(as[i] & 0xffff0000u), __uint_as_float(bs[i] & 0xffff0000u), sum);
  }
  return sum;
}

// Logits of a few rows, bf16, 16 bytes a load: one warp an expert, whose weights it reads once,
// kAhead loads of a lane at a time.
constexpr int kAhead = 7;
template <int kRows>
__global__ void __launch_bounds__(kThreads)
    score_rows(const uint4* weight, const uint4* x, std::int64_t experts, int vectors, float* out) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (e >= experts) return;
  weight += e * vectors;
  float sums[kRows] = {};
  for (int first = threadIdx.x % 32; first < vectors; first += 32 * kAhead) {
    uint4 w[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) w[i] = load_stream(weight + first + 32 * i);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      uint4 v[kAhead];
      const uint4* from = x + static_cast<std::int64_t>(r) * vectors + first;
#pragma unroll
      for (int i = 0; i < kAhead; ++i) v[i] = __ldg(from + 32 * i);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sums[r] = dot8(w[i], v[i], sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = warp_sum(sums[r]);
    if (threadIdx.x % 32 == 0) out[r * experts + e] = sum;
  }
}

bool few_rows_serve(const Context& context, const RouteArgs& args) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return !context.deterministic && args.x.rows() <= 4 && context.activation == DType::kBf16 &&
         args.weight.format == WeightFormat::kBf16 && args.weight.cols % (8 * 32 * kAhead) == 0 &&
         aligned(args.weight.data) && aligned(args.x.data);
}

void score_few(Context& context, const RouteArgs& args, float* logits) {
  const auto go = [&](auto kernel) {
    launch({"route: logits", ceil_div(args.weight.rows, kWarps), kThreads, 0, context.stream},
           kernel, static_cast<const uint4*>(args.weight.data),
           static_cast<const uint4*>(args.x.data), args.weight.rows,
           static_cast<int>(args.weight.cols / 8), logits);
  };
  switch (args.x.rows()) {
    case 1:
      return go(score_rows<1>);
    case 2:
      return go(score_rows<2>);
    case 3:
      return go(score_rows<3>);
    default:
      return go(score_rows<4>);
  }
}

}  // namespace

void route(Context& context, const RouteArgs& args) {
  const std::int64_t rows = args.x.rows(), experts = args.weight.rows;
  if (rows == 0) return;
  Product product{.x = args.x.data,
                  .rows = rows,
                  .cols = args.x.cols(),
                  .outputs = {{args.weight, nullptr}},
                  .num_outputs = 1,
                  .finish = Finish::kLogits,
                  .add = nullptr,
                  .activation = {}};
  const bool few = few_rows_serve(context, args);
  context.scratch.begin(Scratch::bytes_of<float>(rows * experts) +
                        (few ? 0 : multiply_scratch(context, product)));
  auto* logits = context.scratch.take<float>(rows * experts);
  product.outputs[0].out = logits;
  if (few) {
    score_few(context, args, logits);
  } else {
    multiply(context, product);
  }
  const Choice choice{logits,           args.bias,  rows,     experts,     args.top_k,
                      args.renormalize, args.scale, args.ids, args.weights};
  const auto go = [&](auto kernel) {
    launch({"route: choice", ceil_div(rows, kWarps), kThreads, 0, context.stream}, kernel, choice);
  };
  if (args.top_k > 32 || experts > 1024) return go(choose_plain);
  if (experts <= 256) return go(choose<8>);
  if (experts <= 896) return go(choose<28>);
  go(choose<32>);
}

}  // namespace baltoro::cuda
