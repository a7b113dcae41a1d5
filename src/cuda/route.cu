// The router: logits, then one warp a row for scores, choice and weights; a few rows in one launch.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device/load.cuh"
#include "cuda/device/overlap.cuh"
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

// One launch for a few rows of bf16: each warp scores an expert, whose weights it reads once, and the
// block that ends last chooses.
constexpr int kRouteWarps = 7;  // 128 blocks for 896 experts
constexpr int kRouteThreads = 32 * kRouteWarps;
constexpr int kRouteExperts = 1024;  // at most
// At most: with three, the loads under way no longer fit the registers.
constexpr int kRouteRows = 2;
constexpr int kAhead = 28;    // loads of a lane under way: a row of 7168
constexpr int kTogether = 7;  // loads of x, and sums that do not wait for one another
constexpr int kPerThread = (kRouteExperts + kRouteThreads - 1) / kRouteThreads;

struct RouteShared {
  unsigned best[kRouteWarps][32];
  float scores[kRouteExperts];
  uint2 list[kRouteExperts];
  std::int32_t ids[32];
  int listed;
  bool last;
};

// choose_row with the threads of a block: the same bound, list and ranks. `bias`: of the thread's
// experts. top_k <= 32.
__device__ void choose_in_block(const Choice& c, const RowChoice& row,
                                const float (&bias)[kPerThread], RouteShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const auto count = static_cast<int>(c.num_experts);
  float scores[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int e = thread + kRouteThreads * i;
    scores[i] = e < count ? __ldcg(row.logits + e) : 0.0f;
  }
  unsigned keys[kPerThread] = {};
  unsigned best = 0;
  bool failed = false;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int e = thread + kRouteThreads * i;
    if (e >= count) continue;
    const float score = score_of(scores[i]);
    shared.scores[e] = score;
    const float biased = score + bias[i];
    failed |= isnan(biased);
    keys[i] = key_of(biased);
    best = max(best, keys[i]);
  }
  shared.best[thread / 32][lane] = best;
  if (thread == 0) shared.listed = 0;
  if (__syncthreads_or(failed) != 0) {
    if (thread < 32) choose_nothing(c, row);
    return;
  }
  for (const auto& of_warp : shared.best) best = max(best, of_warp[lane]);
  const unsigned bound = kth_of_lanes(best, c.top_k);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const bool in = keys[i] >= bound;
    const unsigned mask = __ballot_sync(kAll, in);
    if (mask == 0) continue;
    int first = 0;
    if (lane == 0) first = atomicAdd(&shared.listed, __popc(mask));
    first = __shfl_sync(kAll, first, 0);
    if (in) {
      shared.list[first + __popc(mask & ((1u << lane) - 1))] = {
          keys[i], static_cast<unsigned>(thread + kRouteThreads * i)};
    }
  }
  __syncthreads();
  for (int i = thread; i < shared.listed; i += kRouteThreads) {
    const uint2 mine = shared.list[i];
    int rank = 0;
    for (int j = 0; j < shared.listed; ++j) {
      rank += before(shared.list[j].x, shared.list[j].y, mine.x, mine.y);
    }
    if (rank < c.top_k) shared.ids[rank] = static_cast<std::int32_t>(mine.y);
  }
  __syncthreads();
  if (thread >= 32) return;
  const bool chosen = lane < c.top_k;
  const float score = chosen ? shared.scores[shared.ids[lane]] : 0.0f;
  const float divisor = c.renormalize ? warp_sum(score) + 1e-20f : 1.0f;
  if (chosen) {
    row.ids[lane] = shared.ids[lane];
    row.weights[lane] = score / divisor * c.scale;
  }
}

// `logits` [rows, experts] is c.logits. *arrived is 0 before and after.
template <int kRows>
__global__ void __launch_bounds__(kRouteThreads)
    route_rows(const uint4* weight, const uint4* x, int vectors, float* logits, Choice c,
               unsigned* arrived) {
  __shared__ RouteShared shared;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kRouteWarps + thread / 32;
  const bool inside = e < c.num_experts;
  weight += (inside ? e : 0) * vectors;
  uint4 w[kAhead];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = first + lane + 32 * i;
      w[i] = at < vectors ? load_stream(weight + at) : uint4{0, 0, 0, 0};
    }
  };
  load(0);
  float bias[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int of = thread + kRouteThreads * i;
    bias[i] = of < c.num_experts ? c.bias[of] : 0.0f;
  }
  start_next_kernel();
  wait_for_previous_kernel();
  float sums[kRows][kTogether] = {};
  for (int first = 0; first < vectors; first += 32 * kAhead) {
    if (first > 0) load(first);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4* from = x + static_cast<std::int64_t>(r) * vectors + first + lane;
#pragma unroll
      for (int i = 0; i < kAhead; i += kTogether) {
        uint4 v[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int at = 32 * (i + j);
          v[j] = first + lane + at < vectors ? from[at] : uint4{0, 0, 0, 0};
        }
#pragma unroll
        for (int j = 0; j < kTogether; ++j) sums[r][j] = dot8(w[i + j], v[j], sums[r][j]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float own = 0;
#pragma unroll
    for (int j = 0; j < kTogether; ++j) own += sums[r][j];
    const float sum = warp_sum(own);
    if (inside && lane == 0) logits[r * c.num_experts + e] = sum;
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    shared.last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    if (shared.last) *arrived = 0;
    __threadfence();
  }
  __syncthreads();
  if (!shared.last) return;
  for (int r = 0; r < kRows; ++r) {
    if (r > 0) __syncthreads();  // the row before is done with the shared memory
    choose_in_block(c, RowChoice(c, r), bias, shared);
  }
}

bool few_rows_serve(const Context& context, const RouteArgs& args) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return !context.deterministic && args.x.rows() <= kRouteRows && args.top_k <= 32 &&
         args.weight.rows <= kRouteExperts && context.activation == DType::kBf16 &&
         args.weight.format == WeightFormat::kBf16 && args.weight.cols % 8 == 0 &&
         aligned(args.weight.data) && aligned(args.x.data);
}

void route_few(Context& context, const RouteArgs& args, float* logits, const Choice& choice) {
  const auto go = [&](auto kernel) {
    launch({.name = "route: a few rows",
            .grid = dim3(ceil_div(args.weight.rows, kRouteWarps)),
            .block = dim3(kRouteThreads),
            .stream = context.stream,
            .overlap = true},
           kernel, static_cast<const uint4*>(args.weight.data),
           static_cast<const uint4*>(args.x.data), static_cast<int>(args.weight.cols / 8), logits,
           choice, context.arrived);
  };
  if (args.x.rows() == 1) return go(route_rows<1>);
  go(route_rows<kRouteRows>);
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
  const Choice choice{logits,           args.bias,  rows,     experts,     args.top_k,
                      args.renormalize, args.scale, args.ids, args.weights};
  if (few) return route_few(context, args, logits, choice);
  multiply(context, product);
  const auto go = [&](auto kernel) {
    launch({"route: choice", ceil_div(rows, kWarps), kThreads, 0, context.stream}, kernel, choice);
  };
  if (args.top_k > 32 || experts > 1024) return go(choose_plain);
  if (experts <= 256) return go(choose<8>);
  if (experts <= 896) return go(choose<28>);
  go(choose<32>);
}

}  // namespace baltoro::cuda
