// The steps of absorbed decode around the attention over segments: cache write, list of rows, queries
// raised into the latent, segments merged, values projected.
#include "cuda/device/activation.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/rotate.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_cache.cuh"
#include "cuda/mla_decode.h"

namespace baltoro::cuda {
namespace {

constexpr int kPage = static_cast<int>(kBlockTokens);
constexpr int kRowsAtOnce = 8;  // that share one read of the weights, where there are several

constexpr int kPlanThreads = 1024;

// One block. Rows are taken kPlanThreads at a time; counts and pages are summed over the block.
__global__ void __launch_bounds__(kPlanThreads) plan_kernel(DeviceBatch batch, SplitPlan plan) {
  __shared__ int2 warp_total[32];
  start_next_kernel();
  wait_for_previous_kernel();
  int2 before = {0, 0};  // generated rows and their pages
  for (int first = 0; first < batch.num_rows; first += kPlanThreads) {
    const int row = first + static_cast<int>(threadIdx.x);
    int2 own = {0, 0};
    SplitRow entry{};
    if (row < batch.num_rows) {
      const DeviceSequence sequence = batch.sequences[batch.row_sequence[row]];
      if (sequence.is_generated != 0) {
        const auto length = static_cast<int>(sequence.start_pos) + row - sequence.first_row + 1;
        own = {1, (length + kPage - 1) / kPage};
        entry = {row, length, sequence.first_page, 0};
      }
    }
    int2 sum = own;  // up to and with this thread
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int count = __shfl_up_sync(0xffffffffu, sum.x, offset);
      const int pages = __shfl_up_sync(0xffffffffu, sum.y, offset);
      if (static_cast<int>(threadIdx.x % 32) >= offset) sum = {sum.x + count, sum.y + pages};
    }
    __syncthreads();
    if (threadIdx.x % 32 == 31) warp_total[threadIdx.x / 32] = sum;
    __syncthreads();
    int2 all = {0, 0};
    for (int w = 0; w < 32; ++w) {
      if (w == static_cast<int>(threadIdx.x / 32)) sum = {sum.x + all.x, sum.y + all.y};
      all = {all.x + warp_total[w].x, all.y + warp_total[w].y};
    }
    if (own.x != 0) {
      entry.pages_before = before.y + sum.y - own.y;
      plan.rows[before.x + sum.x - 1] = entry;
    }
    before = {before.x + all.x, before.y + all.y};
  }
  if (threadIdx.x == 0) plan.rows[plan.num_rows] = {0, 0, 0, before.y};
}

struct Absorb {
  DeviceBatch batch;
  DecodeBuffers buffers;
  const bf16* q;
  const bf16* kv_b;  // [H * (Dn + Dv), Ckv]; Ckv a multiple of 8
  const bf16* gate;  // or null
  bf16* out;
  int heads, nope, rope, values, rank;
  float theta;  // 0: not rotated
};

__device__ __forceinline__ bf16* raised(const Absorb& p, std::int64_t ordinal, int head) {
  return static_cast<bf16*>(p.buffers.queries) + (ordinal * p.heads + head) * (p.rank + p.rope);
}

__device__ __forceinline__ void unpack(const uint4& packed, float (&values)[8]) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}

// Elements d and d + 1 of q_side of a row, behind what the row was raised to.
__device__ __forceinline__ void copy_side(const Absorb& p, int head, int ordinal,
                                          const SplitRow& row, int d) {
  const bf16* side =
      p.q + (static_cast<std::int64_t>(row.row) * p.heads + head) * (p.nope + p.rope) + p.nope + d;
  float2 pair = {to_f32(side[0]), to_f32(side[1])};
  if (p.theta != 0) pair = rotate_pair(pair, d, p.rope, row.length - 1, p.theta);
  bf16* to = raised(p, ordinal, head) + p.rank + d;
  to[0] = from_f32<bf16>(pair.x);
  to[1] = from_f32<bf16>(pair.y);
}

constexpr int kChannels = 128;           // of the latent, that a block raises
constexpr int kVectors = kChannels / 8;  // of a row of weights
constexpr int kSlices = 16;              // of the key rows, one a group of threads
constexpr int kRaiseThreads = kVectors * kSlices;

// A row alone in its batch, all that precedes attention: one block a head and kChannels latent
// channels, key rows shared out; of the blocks behind them, the first writes the cache and the plan.
__global__ void __launch_bounds__(kRaiseThreads) prepare_row_kernel(Absorb p, CacheWrite cache) {
  __shared__ float sums[kSlices][kChannels];
  start_next_kernel();
  wait_for_previous_kernel();
  const int head = static_cast<int>(blockIdx.x);
  const DeviceSequence sequence = p.batch.sequences[0];
  const auto length = static_cast<int>(sequence.start_pos) + 1;
  if (blockIdx.y == gridDim.y - 1) {
    if (head != 0) return;
    if (threadIdx.x == 0) {
      p.buffers.plan.rows[0] = {0, length, sequence.first_page, 0};
      p.buffers.plan.rows[1] = {0, 0, 0, (length + kPage - 1) / kPage};
    }
    write_cache_row<bf16>(cache, 0, sums[0]);
    return;
  }
  const int first_channel = static_cast<int>(blockIdx.y) * kChannels;
  if (blockIdx.y == 0 && static_cast<int>(threadIdx.x) < p.rope / 2) {
    copy_side(p, head, 0, {0, length, sequence.first_page, 0}, 2 * static_cast<int>(threadIdx.x));
  }
  const int vector = static_cast<int>(threadIdx.x) % kVectors;
  const int slice = static_cast<int>(threadIdx.x) / kVectors;
  const bf16* q = p.q + std::int64_t{head} * (p.nope + p.rope);
  const bf16* weight = p.kv_b + static_cast<std::int64_t>(head) * (p.nope + p.values) * p.rank +
                       first_channel + vector * 8;
  float sum[8] = {};
  if (first_channel + vector * 8 < p.rank) {
#pragma unroll 8
    for (int d = slice; d < p.nope; d += kSlices) {
      float w[8];
      unpack(*reinterpret_cast<const uint4*>(weight + static_cast<std::int64_t>(d) * p.rank), w);
      const float x = to_f32(q[d]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] += x * w[i];
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[slice][vector * 8 + i] = sum[i];
  __syncthreads();
  const int c = static_cast<int>(threadIdx.x);
  if (c >= kChannels || first_channel + c >= p.rank) return;
  float total = 0;
  for (int i = 0; i < kSlices; ++i) total += sums[i][c];
  raised(p, 0, head)[first_channel + c] = from_f32<bf16>(total);
}

constexpr int kRaiseRowsThreads = 128;

// One block: one head of up to kRowsAtOnce rows. Thread: two latent channels.
__global__ void __launch_bounds__(kRaiseRowsThreads) raise_rows_kernel(Absorb p) {
  extern __shared__ float4 query[];  // [nope][kRowsAtOnce]
  start_next_kernel();
  wait_for_previous_kernel();
  const int head = static_cast<int>(blockIdx.x);
  const int first = static_cast<int>(blockIdx.y) * kRowsAtOnce;
  const int count = min(kRowsAtOnce, p.buffers.plan.num_rows - first);
  const int pairs = p.rope / 2;
  for (int i = threadIdx.x; blockIdx.z == 0 && i < count * pairs; i += kRaiseRowsThreads) {
    copy_side(p, head, first + i / pairs, p.buffers.plan.rows[first + i / pairs], i % pairs * 2);
  }
  for (int i = threadIdx.x; i < p.nope * kRowsAtOnce; i += kRaiseRowsThreads) {
    const int r = i / p.nope;
    const std::int64_t row = r < count ? p.buffers.plan.rows[first + r].row : 0;
    const bf16* q = p.q + (row * p.heads + head) * (p.nope + p.rope);
    reinterpret_cast<float*>(query)[i % p.nope * kRowsAtOnce + r] =
        r < count ? to_f32(q[i % p.nope]) : 0.0f;
  }
  __syncthreads();
  const int c = 2 * static_cast<int>(blockIdx.z * kRaiseRowsThreads + threadIdx.x);
  if (c >= p.rank) return;
  const bf16* weight = p.kv_b + static_cast<std::int64_t>(head) * (p.nope + p.values) * p.rank + c;
  float2 sum[kRowsAtOnce] = {};
#pragma unroll 16
  for (int d = 0; d < p.nope; ++d) {
    const float2 w = __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(weight + static_cast<std::int64_t>(d) * p.rank));
#pragma unroll
    for (int half = 0; half < kRowsAtOnce / 4; ++half) {
      const float4 x = query[d * (kRowsAtOnce / 4) + half];
      const float of_row[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sum[4 * half + r].x += of_row[r] * w.x;
        sum[4 * half + r].y += of_row[r] * w.y;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAtOnce; ++r) {
    if (r < count) {
      *reinterpret_cast<__nv_bfloat162*>(raised(p, first + r, head) + c) =
          __floats2bfloat162_rn(sum[r].x, sum[r].y);
    }
  }
}

// One block: 4 kLanes channels of one head of one row. Slice i of the threads adds segments i,
// i + kSlices, ... in page order, then slices are added in order.
template <int kLanes, int kSlices>
__global__ void __launch_bounds__(kLanes* kSlices) merge_kernel(Absorb p) {
  constexpr int kThreads = kLanes * kSlices;
  __shared__ float4 sums[kSlices][kLanes];
  __shared__ float slots[32];
  start_next_kernel();
  wait_for_previous_kernel();
  const int ordinal = static_cast<int>(blockIdx.x) / p.heads;
  const int head = static_cast<int>(blockIdx.x) % p.heads;
  const int2 segments = segments_of(p.buffers.plan, ordinal);
  const auto at = [&](int segment) { return static_cast<std::int64_t>(segment) * p.heads + head; };
  float largest = -INFINITY;
  for (int s = segments.x + static_cast<int>(threadIdx.x); s <= segments.y; s += kThreads) {
    largest = fmaxf(largest, p.buffers.partial_sum[at(s)].x);
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) largest = fmaxf(largest, slots[w]);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int slice = static_cast<int>(threadIdx.x) / kLanes;
  const int channel = (static_cast<int>(blockIdx.y) * kLanes + lane) * 4;
  float total = 0;
  float4 sum = {0, 0, 0, 0};
  if (channel < p.rank) {
#pragma unroll 4
    for (int s = segments.x + slice; s <= segments.y; s += kSlices) {
      const float2 of_segment = p.buffers.partial_sum[at(s)];
      const float4 part =
          *reinterpret_cast<const float4*>(p.buffers.partial + at(s) * p.rank + channel);
      const float weight = exp2f(of_segment.x - largest);
      total += weight * of_segment.y;
      sum = {sum.x + weight * part.x, sum.y + weight * part.y, sum.z + weight * part.z,
             sum.w + weight * part.w};
    }
  }
  // Every lane of a slice has that slice's total.
  sums[slice][lane] = sum;
  __syncthreads();
  if (lane == 0) slots[slice] = total;
  __syncthreads();
  if (slice != 0 || channel >= p.rank) return;
  total = 0;
  sum = {0, 0, 0, 0};
  for (int i = 0; i < kSlices; ++i) {
    const float4 part = sums[i][lane];
    total += slots[i];
    sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
  const float scale = 1.0f / total;
  *reinterpret_cast<float4*>(p.buffers.context + static_cast<std::int64_t>(blockIdx.x) * p.rank +
                             channel) =
      make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
}

// 2 kLaneBit values in each lane: lane l ends with the sum over all lanes of value l, in values[0].
template <int kLaneBit>
__device__ __forceinline__ void fold_lanes(float* values) {
  const bool upper = (threadIdx.x & kLaneBit) != 0;
#pragma unroll
  for (int k = 0; k < kLaneBit; ++k) {
    const float give = upper ? values[k] : values[k + kLaneBit];
    const float keep = upper ? values[k + kLaneBit] : values[k];
    values[k] = keep + __shfl_xor_sync(0xffffffffu, give, kLaneBit);
  }
  if constexpr (kLaneBit > 1) fold_lanes<kLaneBit / 2>(values);
}

constexpr int kProjectThreads = 256;
constexpr int kValuesAtOnce = 32;  // value channels of a block

// One block: kValuesAtOnce value channels of one head of up to kRows rows. Warp: one at a time.
template <int kRows>
__global__ void __launch_bounds__(kProjectThreads) project_kernel(Absorb p) {
  extern __shared__ float context[];  // [kRows][rank]
  start_next_kernel();
  wait_for_previous_kernel();
  const int head = static_cast<int>(blockIdx.x);
  const int first = static_cast<int>(blockIdx.y) * kRows;
  const int first_value = static_cast<int>(blockIdx.z) * kValuesAtOnce;
  const int count = min(kRows, p.buffers.plan.num_rows - first);
  for (int i = threadIdx.x; i < kRows * p.rank; i += kProjectThreads) {
    const std::int64_t row = first + i / p.rank;
    context[i] =
        i < count * p.rank ? p.buffers.context[(row * p.heads + head) * p.rank + i % p.rank] : 0.0f;
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % 32);
  constexpr int kEach = kValuesAtOnce / (kProjectThreads / 32);  // value channels of a warp
  const int first_own = first_value + static_cast<int>(threadIdx.x / 32) * kEach;
  const bf16* weight =
      p.kv_b +
      (static_cast<std::int64_t>(head) * (p.nope + p.values) + p.nope + first_own) * p.rank;
  float sum[kEach][kRows] = {};
#pragma unroll 2
  for (int c = 8 * lane; c < p.rank; c += 256) {
    float w[kEach][8] = {};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first_own + i < p.values) {
        unpack(*reinterpret_cast<const uint4*>(weight + i * static_cast<std::int64_t>(p.rank) + c),
               w[i]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto* x = reinterpret_cast<const float4*>(context + r * p.rank + c);
      const float4 low = x[0], high = x[1];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        sum[i][r] += low.x * w[i][0] + low.y * w[i][1] + low.z * w[i][2] + low.w * w[i][3] +
                     high.x * w[i][4] + high.y * w[i][5] + high.z * w[i][6] + high.w * w[i][7];
      }
    }
  }
  // Lane l ends with the sum of entry l: value channel l / kRows, row l % kRows.
  float* all = &sum[0][0];
  if constexpr (kRows * kEach == 32) {
    fold_lanes<16>(all);
  } else {
#pragma unroll
    for (int i = 0; i < kRows * kEach; ++i) {
      const float one = warp_sum(all[i]);
      if (lane == i) all[0] = one;
    }
  }
  const int d = first_own + lane / kRows;
  const int r = lane % kRows;
  if (lane >= kRows * kEach || r >= count || d >= p.values) return;
  const std::int64_t row = p.buffers.plan.rows[first + r].row;
  const std::int64_t at = (row * p.heads + head) * p.values + d;
  float value = round_as<bf16>(all[0]);
  if (p.gate != nullptr) value *= round_as<bf16>(sigmoid(to_f32(p.gate[at])));
  p.out[at] = from_f32<bf16>(value);
}

Absorb absorb_of(Context& context, const MlaArgs& args, const DecodeBuffers& buffers) {
  const MlaShape& shape = args.shape;
  Absorb p{};
  p.batch = context.stage.batch(args.batch);
  p.buffers = buffers;
  p.q = static_cast<const bf16*>(args.q.data);
  p.kv_b = static_cast<const bf16*>(buffers.kv_b);
  p.gate = static_cast<const bf16*>(args.gate.data);
  p.out = static_cast<bf16*>(args.out.data);
  p.heads = static_cast<int>(shape.num_heads);
  p.nope = static_cast<int>(shape.nope_dim);
  p.rope = static_cast<int>(shape.rope_dim);
  p.values = static_cast<int>(shape.v_head_dim);
  p.rank = static_cast<int>(shape.kv_rank);
  p.theta = args.rope_theta.value_or(0.0f);
  return p;
}

// Of kernels that wait themselves, first thing, for the one ahead.
Launch overlapped(const Context& context, const char* name, dim3 grid, unsigned threads,
                  std::size_t shared_bytes = 0) {
  return {name, grid, dim3(threads), shared_bytes, context.stream, true};
}

}  // namespace

void mla_prepare(Context& context, const MlaArgs& args, const DecodeBuffers& buffers) {
  const Absorb p = absorb_of(context, args, buffers);
  const auto heads = static_cast<unsigned>(p.heads);
  if (p.batch.num_rows == 1 && p.rope / 2 <= kRaiseThreads && !context.deterministic) {
    const dim3 grid(heads, ceil_div(p.rank, kChannels) + 1);
    launch(overlapped(context, "mla_decode: prepare a row", grid, kRaiseThreads),
           prepare_row_kernel, p, cache_write(context, args, Origin::kGenerated));
    return;
  }
  mla_write_cache(context, args, Origin::kGenerated);
  launch(overlapped(context, "mla_decode: plan", 1, kPlanThreads), plan_kernel, p.batch,
         buffers.plan);
  const dim3 grid(heads, ceil_div(buffers.plan.num_rows, kRowsAtOnce),
                  ceil_div(p.rank, 2 * kRaiseRowsThreads));
  launch(overlapped(context, "mla_decode: raise the queries", grid, kRaiseRowsThreads,
                    static_cast<std::size_t>(p.nope * kRowsAtOnce) * sizeof(float)),
         raise_rows_kernel, p);
}

void mla_merge(Context& context, const MlaArgs& args, const DecodeBuffers& buffers) {
  const Absorb p = absorb_of(context, args, buffers);
  const std::int64_t heads = static_cast<std::int64_t>(buffers.plan.num_rows) * p.heads;
  const auto run = [&](auto kernel, int lanes, int slices) {
    const dim3 grid(static_cast<unsigned>(heads), ceil_div(p.rank, 4 * lanes));
    launch(overlapped(context, "mla_decode: merge", grid, static_cast<unsigned>(lanes * slices)),
           kernel, p);
  };
  // Few heads have many segments each.
  const bool few = heads <= 2 * context.device.num_sms && !context.deterministic;
  few ? run(merge_kernel<16, 16>, 16, 16) : run(merge_kernel<128, 1>, 128, 1);
}

void mla_project(Context& context, const MlaArgs& args, const DecodeBuffers& buffers) {
  const Absorb p = absorb_of(context, args, buffers);
  // A single row has a kernel of its own, which sums in another order.
  const bool is_single = buffers.plan.num_rows == 1 && !context.deterministic;
  const int at_once = is_single ? 1 : kRowsAtOnce;
  const dim3 grid(static_cast<unsigned>(p.heads), ceil_div(buffers.plan.num_rows, at_once),
                  ceil_div(p.values, kValuesAtOnce));
  const auto floats = static_cast<std::size_t>(at_once * p.rank);
  launch(overlapped(context, "mla_decode: project", grid, kProjectThreads, floats * sizeof(float)),
         at_once == 1 ? project_kernel<1> : project_kernel<kRowsAtOnce>, p);
}

}  // namespace baltoro::cuda
