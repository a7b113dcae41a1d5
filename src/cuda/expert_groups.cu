#include <algorithm>

#include "cuda/expert_groups.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 1024;

struct Total {
  std::int32_t pairs;
  std::int32_t groups;
};

__device__ __forceinline__ Total operator+(Total a, Total b) {
  return {a.pairs + b.pairs, a.groups + b.groups};
}

__device__ __forceinline__ Total shift_up(Total value, int offset) {
  return {__shfl_up_sync(0xffffffffu, value.pairs, offset),
          __shfl_up_sync(0xffffffffu, value.groups, offset)};
}

__device__ Total warp_scan(Total value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Total below = shift_up(value, offset);
    if (static_cast<int>(threadIdx.x % 32) >= offset) value = value + below;
  }
  return value;
}

// The sum over the threads up to this one.
__device__ Total block_scan(Total value, Total* warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = warp_scan(value);
  if (lane == 31) warps[warp] = value;
  __syncthreads();
  if (warp == 0) warps[lane] = warp_scan(warps[lane]);
  __syncthreads();
  return warp == 0 ? value : value + warps[warp - 1];
}

__device__ __forceinline__ int parts_of(int count, int size) { return (count + size - 1) / size; }

// One block: histogram, sums in front, lists. Shared memory: [num_experts] counters.
__global__ void __launch_bounds__(kThreads)
    group_kernel(ExpertGroups out, const std::int32_t* ids, int num_experts) {
  extern __shared__ std::int32_t counts[];
  __shared__ Total warps[kThreads / 32];
  const int per_thread = (num_experts + kThreads - 1) / kThreads;
  const int begin = min(static_cast<int>(threadIdx.x) * per_thread, num_experts);
  const int end = min(begin + per_thread, num_experts);
  for (int e = threadIdx.x; e < num_experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  for (std::int64_t p = threadIdx.x; p < out.num_pairs; p += kThreads) {
    atomicAdd(&counts[ids[p]], 1);
  }
  __syncthreads();
  Total mine{0, 0};
  for (int e = begin; e < end; ++e) {
    mine = mine +
           Total{parts_of(counts[e], out.align) * out.align, parts_of(counts[e], out.group_rows)};
  }
  const Total up_to = block_scan(mine, warps);
  if (threadIdx.x == kThreads - 1) {
    *out.num_groups = up_to.groups;
    *out.num_positions = up_to.pairs;
  }
  Total next{up_to.pairs - mine.pairs, up_to.groups - mine.groups};
  for (int e = begin; e < end; ++e) {
    const int count = counts[e];
    counts[e] = next.pairs;  // the cursor from here on
    for (int done = 0; done < count; done += out.group_rows) {
      out.groups[next.groups++] = {e, next.pairs + done, min(count - done, out.group_rows)};
    }
    const int padded = parts_of(count, out.align) * out.align;
    for (int i = count; i < padded; ++i) out.pairs[next.pairs + i] = -1;
    next.pairs += padded;
  }
  __syncthreads();
  for (std::int64_t p = threadIdx.x; p < out.num_pairs; p += kThreads) {
    out.pairs[atomicAdd(&counts[ids[p]], 1)] = static_cast<std::int32_t>(p);
  }
}

}  // namespace

ExpertGroups plan_groups(std::int64_t num_pairs, std::int64_t num_experts, int group_rows,
                         int align) {
  ExpertGroups groups{};
  groups.num_pairs = num_pairs;
  groups.max_positions = num_pairs + (align - 1) * std::min(num_pairs, num_experts);
  groups.max_groups = std::min(num_pairs, num_experts + num_pairs / group_rows);
  groups.group_rows = group_rows;
  groups.align = align;
  return groups;
}

std::size_t group_bytes(const ExpertGroups& groups) {
  return Scratch::bytes_of<std::int32_t>(groups.max_positions) +
         Scratch::bytes_of<RowGroup>(groups.max_groups) + Scratch::bytes_of<std::int32_t>(2);
}

void take_groups(Scratch& scratch, ExpertGroups& groups) {
  groups.pairs = scratch.take<std::int32_t>(groups.max_positions);
  groups.groups = scratch.take<RowGroup>(groups.max_groups);
  groups.num_groups = scratch.take<std::int32_t>(2);
  groups.num_positions = groups.num_groups + 1;
}

void group_pairs(Context& context, ExpertGroups& groups, const std::int32_t* ids,
                 std::int64_t num_experts, std::int64_t rows) {
  if (rows == 1) {
    groups.row_ids = ids;
    return;
  }
  const auto shared = static_cast<std::size_t>(num_experts) * sizeof(std::int32_t);
  launch({"group by expert", 1, kThreads, shared, context.stream}, group_kernel, groups, ids,
         static_cast<int>(num_experts));
}

}  // namespace baltoro::cuda
