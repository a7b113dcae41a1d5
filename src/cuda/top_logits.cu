// The 256 largest logits of each row, and sums over all. A row is cut into up to 1024 chunks; the
// 256th largest of their maxima is a bound that at least 256 logits reach and few more do; those are
// gathered and sorted. Keys of logits are unique, so that the order of gathering does not matter.
#include <cstdint>

#include "cuda/context.h"
#include "cuda/device/reduce.cuh"
#include "cuda/launch.cuh"
#include "cuda/scratch.h"

namespace baltoro::cuda {
namespace {

using Key = unsigned long long;

constexpr int kTop = static_cast<int>(kTopLogits);
constexpr int kChunks = 1024;
constexpr int kGathered = 2048;  // room for what reaches the bound
constexpr int kThreads = 256;
constexpr int kSortThreads = 1024;
constexpr int kSumBlocks = 32;  // of a row

// What is known of a row before its logits are gathered.
struct Bound {
  Key least;  // 0: every logit that is allowed
  float max;
  int count;  // gathered
};
struct Sums {
  double plain, tempered;
};

// Larger for a larger logit, then for a lower id; never 0, which stands for nothing. Zeros are equal.
__device__ __forceinline__ Key key_of(float logit, int id) {
  const std::uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0f));
  const std::uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(ordered) << 32 | static_cast<std::uint32_t>(~id);
}
__device__ __forceinline__ float logit_of(Key key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float(ordered >> 31 != 0 ? ordered & 0x7fffffffu : ~ordered);
}
__device__ __forceinline__ int id_of(Key key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

// Descending, by all kSortThreads threads of a block.
template <int kCount>
__device__ void sort_keys(Key* keys) {
  for (int size = 2; size <= kCount; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kCount / 2; i += kSortThreads) {
        const int low = 2 * i - (i & (stride - 1));
        const bool descends = (low & size) == 0;
        const Key a = keys[low], b = keys[low + stride];
        if ((a < b) == descends) {
          keys[low] = b;
          keys[low + stride] = a;
        }
      }
    }
  }
  __syncthreads();
}

// Grid: (eight chunks, row). A warp has a chunk.
__global__ void __launch_bounds__(kThreads) find_maxima(const float* logits, int vocab, int chunk,
                                                        const std::uint8_t* banned, Key* maxima) {
  const int index =
      static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (index >= kChunks) return;
  const float* row = logits + static_cast<std::int64_t>(blockIdx.y) * vocab;
  const int begin = index * chunk, end = min(vocab, begin + chunk);
  Key best = 0;
  for (int i = begin + static_cast<int>(threadIdx.x) % 32; i < end; i += 32) {
    if (banned == nullptr || banned[i] == 0) best = max(best, key_of(row[i], i));
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffffu, best, offset));
  }
  if (threadIdx.x % 32 == 0) maxima[blockIdx.y * kChunks + index] = best;
}

// Grid: (row).
__global__ void __launch_bounds__(kSortThreads) find_bound(const Key* maxima, Bound* bounds) {
  __shared__ Key keys[kChunks];
  keys[threadIdx.x] = maxima[blockIdx.x * kChunks + threadIdx.x];
  sort_keys<kChunks>(keys);
  if (threadIdx.x == 0) bounds[blockIdx.x] = {keys[kTop - 1], logit_of(keys[0]), 0};
}

// Grid: (kSumBlocks, row).
__global__ void __launch_bounds__(kThreads)
    gather(const float* logits, int vocab, const std::uint8_t* banned, const float* temperatures,
           Bound* bounds, Key* gathered, Sums* sums) {
  __shared__ Sums parts[kThreads / 32];
  const int row = static_cast<int>(blockIdx.y);
  const Bound bound = bounds[row];
  const float temperature = temperatures[row];
  const float* values = logits + static_cast<std::int64_t>(row) * vocab;
  Sums sum{0, 0};
  for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); i < vocab;
       i += kSumBlocks * kThreads) {
    if (banned != nullptr && banned[i] != 0) continue;
    const float below = values[i] - bound.max;
    sum.plain += expf(below);
    sum.tempered += expf(below / temperature);
    const Key key = key_of(values[i], i);
    if (key < bound.least) continue;
    const int at = atomicAdd(&bounds[row].count, 1);
    if (at < kGathered) gathered[row * kGathered + at] = key;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum.plain += __shfl_xor_sync(0xffffffffu, sum.plain, offset);
    sum.tempered += __shfl_xor_sync(0xffffffffu, sum.tempered, offset);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    sum.plain += parts[warp].plain;
    sum.tempered += parts[warp].tempered;
  }
  sums[row * kSumBlocks + static_cast<int>(blockIdx.x)] = sum;
}

// Grid: (row).
__global__ void __launch_bounds__(kSortThreads)
    list_top(const Bound* bounds, const Key* gathered, const Sums* sums, TopRow* top) {
  __shared__ Key keys[kGathered];
  const Bound bound = bounds[blockIdx.x];
  TopRow& out = top[blockIdx.x];
  const bool fits = bound.count <= kGathered;
  for (int i = static_cast<int>(threadIdx.x); i < kGathered; i += kSortThreads) {
    keys[i] = i < bound.count ? gathered[blockIdx.x * kGathered + i] : 0;
  }
  sort_keys<kGathered>(keys);
  if (threadIdx.x < kTop) {
    out.logits[threadIdx.x] = logit_of(keys[threadIdx.x]);
    out.ids[threadIdx.x] = id_of(keys[threadIdx.x]);
  }
  if (threadIdx.x != 0) return;
  out.count = fits ? min(bound.count, kTop) : 0;
  out.whole = fits && bound.least == 0 && bound.count <= kTop ? 1 : 0;
  out.total = out.tempered_total = 0;
  for (int i = 0; i < kSumBlocks; ++i) {
    out.total += sums[blockIdx.x * kSumBlocks + i].plain;
    out.tempered_total += sums[blockIdx.x * kSumBlocks + i].tempered;
  }
}

}  // namespace

void top_logits(Context& context, const float* logits, std::int64_t vocab, const HeadTopArgs& args,
                TopRow* top) {
  const auto rows = static_cast<std::int64_t>(args.rows.size());
  Scratch& scratch = context.scratch;
  scratch.begin(Scratch::bytes_of<Key>(rows * kChunks) + Scratch::bytes_of<Bound>(rows) +
                Scratch::bytes_of<Key>(rows * kGathered) +
                Scratch::bytes_of<Sums>(rows * kSumBlocks) + Scratch::bytes_of<float>(rows));
  Key* maxima = scratch.take<Key>(rows * kChunks);
  Bound* bounds = scratch.take<Bound>(rows);
  Key* gathered = scratch.take<Key>(rows * kGathered);
  Sums* sums = scratch.take<Sums>(rows * kSumBlocks);
  float* temperatures = scratch.take<float>(rows);
  check(cudaMemcpyAsync(temperatures, args.temperatures.data(), args.temperatures.size_bytes(),
                        cudaMemcpyHostToDevice, context.stream),
        "copy the temperatures to the device");
  const auto count = static_cast<unsigned>(rows);
  const int width = static_cast<int>(vocab), chunk = static_cast<int>(ceil_div(vocab, kChunks));
  launch({"head: maxima of the logits", dim3(kChunks / (kThreads / 32), count), kThreads, 0,
          context.stream},
         find_maxima, logits, width, chunk, args.banned, maxima);
  launch({"head: bound of the largest", count, kSortThreads, 0, context.stream}, find_bound, maxima,
         bounds);
  launch({"head: gather the largest", dim3(kSumBlocks, count), kThreads, 0, context.stream}, gather,
         logits, width, args.banned, temperatures, bounds, gathered, sums);
  launch({"head: list the largest", count, kSortThreads, 0, context.stream}, list_top, bounds,
         gathered, sums, top);
}

}  // namespace baltoro::cuda
