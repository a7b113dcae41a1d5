// mix_norm in one pass over the sources, which stay in registers between the scores and the mix.
// Two bodies: a cluster of blocks per row where rows are few, and one resident block per
// multiprocessor that copies the next row's sources into shared memory while it works on this one.
#include <algorithm>

#include "cuda/device/activation.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/launch.cuh"
#include "cuda/mix_norm.h"
#include "cuda/sm90/tma.cuh"

namespace baltoro::cuda::sm90 {
namespace {

constexpr int kMostSources = 9;
constexpr int kMostHidden = 7168;
constexpr int kCluster = 8;                    // blocks of a row in the latency body
constexpr int kMostAloneThreads = 512;         // of a row that one block has alone
constexpr std::int64_t kMostClusterRows = 64;  // where both bodies take the same time

// Sums of kCount values over a warp by halving: lane l ends with the sum of value `index` of that
// lane, where index < kCount; other lanes hold nothing.
template <int kCount, int kLaneBit>
__device__ __forceinline__ void fold(float* values, int& index, int& live) {
  constexpr int kHalf = (kCount + 1) / 2;
  const bool upper = (threadIdx.x & kLaneBit) != 0;
#pragma unroll
  for (int k = 0; k < kHalf; ++k) {
    const float high = k + kHalf < kCount ? values[k + kHalf] : 0.0f;
    const float give = upper ? values[k] : high;
    const float keep = upper ? high : values[k];
    values[k] = keep + __shfl_xor_sync(0xffffffffu, give, kLaneBit);
  }
  index += upper ? kHalf : 0;
  live = upper ? live - kHalf : min(live, kHalf);
  if constexpr (kLaneBit > 1) fold<kHalf, kLaneBit / 2>(values, index, live);
}

// Shared memory of the sums over a block, or over a cluster: [kBlocks] partial sums from each block.
template <int kCount, int kBlocks>
struct Sums {
  float by_warp[32][kCount];
  float by_block[kBlocks][kCount];
};

// Sums over all threads of the row: total(v) is that of value v afterwards.
template <int kCount, int kBlocks>
__device__ __forceinline__ void row_sums(Sums<kCount, kBlocks>& shared, float (&values)[kCount]) {
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  int index = 0, live = kCount;
  fold<kCount, 16>(values, index, live);
  if (live > 0) shared.by_warp[warp][index] = values[0];
  __syncthreads();
  for (int v = warp; v < kCount; v += warps) {
    const float sum = warp_sum(lane < warps ? shared.by_warp[lane][v] : 0.0f);
    if constexpr (kBlocks == 1) {
      if (lane == 0) shared.by_block[0][v] = sum;
    } else {
      if (lane < kBlocks) store_in_cluster(&shared.by_block[blockIdx.x % kBlocks][v], lane, sum);
    }
  }
  if constexpr (kBlocks == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }
}
template <int kCount, int kBlocks>
__device__ __forceinline__ float total(const Sums<kCount, kBlocks>& shared, int v) {
  float sum = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) sum += shared.by_block[b][v];
  return sum;
}

struct Eight {
  float value[8];
};
__device__ __forceinline__ Eight unpack(const uint4& packed) {
  Eight out;
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    out.value[2 * i] = pair.x;
    out.value[2 * i + 1] = pair.y;
  }
  return out;
}
__device__ __forceinline__ uint4 pack(const Eight& in) {
  uint4 packed;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = __floats2bfloat162_rn(in.value[2 * i], in.value[2 * i + 1]);
  }
  return packed;
}
__device__ __forceinline__ Eight eight_at(const float* values, int vector) {
  Eight out;
  const auto* from = reinterpret_cast<const float4*>(values) + 2 * vector;
  *reinterpret_cast<float4*>(&out.value[0]) = from[0];
  *reinterpret_cast<float4*>(&out.value[4]) = from[1];
  return out;
}

// kVectors vectors of eight values of one row in each thread; zeros where a row has no more. The
// last source is the prefix.
template <int kSources, int kVectors>
struct Row {
  static constexpr int kSums = kSources > 1 ? 2 * kSources + 1 : 2;  // the last: not finite
  uint4 source[kVectors][kSources];

  __device__ __forceinline__ void add_delta(int v, const uint4& delta) {
    Eight prefix = unpack(source[v][kSources - 1]);
    const Eight added = unpack(delta);
#pragma unroll
    for (int i = 0; i < 8; ++i) prefix.value[i] += added.value[i];
    source[v][kSources - 1] = pack(prefix);
  }

  // Adds what vector v brings; `weight`: res_norm * res_proj.
  __device__ __forceinline__ void add_sums(int v, const Eight& weight, float (&sums)[kSums]) const {
    const Eight prefix = unpack(source[v][kSources - 1]);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[kSums - 1] += isfinite(prefix.value[i]) ? 0.0f : 1.0f;
#pragma unroll
    for (int s = 0; s < (kSources > 1 ? kSources : 0); ++s) {
      const Eight x = unpack(source[v][s]);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[2 * s] += x.value[i] * x.value[i];
        sums[2 * s + 1] += x.value[i] * weight.value[i];
      }
    }
  }

  // The share of source threadIdx.x % 32 in the mix.
  template <int kBlocks>
  __device__ __forceinline__ float share(const Sums<kSums, kBlocks>& sums, float hidden,
                                         float eps) const {
    if constexpr (kSources == 1) return 1;
    const int lane = static_cast<int>(threadIdx.x % 32);
    float score = -INFINITY;
    if (lane < kSources) {
      score = total(sums, 2 * lane + 1) / sqrtf(total(sums, 2 * lane) / hidden + eps);
    }
    const float largest = warp_max(score);
    const float weight = lane < kSources ? expf(score - largest) : 0.0f;
    return weight / warp_sum(weight);
  }

  __device__ __forceinline__ Eight mix(int v, float share) const {
    if constexpr (kSources == 1) return unpack(source[v][0]);
    Eight out{};
#pragma unroll
    for (int s = 0; s < kSources; ++s) {
      const Eight x = unpack(source[v][s]);
      const float of_source = __shfl_sync(0xffffffffu, share, s);
#pragma unroll
      for (int i = 0; i < 8; ++i) out.value[i] += of_source * x.value[i];
    }
    return unpack(pack(out));
  }
};

__device__ __forceinline__ float sum_of_squares(const Eight& x) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += x.value[i] * x.value[i];
  return sum;
}
__device__ __forceinline__ uint4 normed(const Eight& h, const Eight& norm, float scale) {
  Eight out;
#pragma unroll
  for (int i = 0; i < 8; ++i) out.value[i] = norm.value[i] * round_as<bf16>(h.value[i] * scale);
  return pack(out);
}
__device__ __forceinline__ void tag_bad(const MixNorm& p, std::int64_t row, float bad) {
  if (bad > 0 && p.first_bad != nullptr && p.first_bad[row] == -1) p.first_bad[row] = p.bad_tag;
}
__device__ __forceinline__ const uint4* vectors(const void* data, std::int64_t row, int hidden) {
  return reinterpret_cast<const uint4*>(static_cast<const bf16*>(data) + row * hidden);
}

// Latency: a row has a cluster of blocks, or one alone.
template <int kSources, int kBlocks>
__global__ void __launch_bounds__(kBlocks == 1 ? kMostAloneThreads : 128) BALTORO_CLUSTER(kBlocks)
    cluster_kernel(const __grid_constant__ MixNorm p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kSums = Row<kSources, 1>::kSums;
  __shared__ Sums<kSums, kBlocks> first_shared;
  __shared__ Sums<1, kBlocks> second_shared;
  if constexpr (kBlocks > 1) cluster_arrive();
  start_next_kernel();
  const std::int64_t row = blockIdx.x / kBlocks;
  const int share = (p.hidden / 8 + kBlocks - 1) / kBlocks;
  const int vector = static_cast<int>(blockIdx.x % kBlocks) * share + static_cast<int>(threadIdx.x);
  const bool active = static_cast<int>(threadIdx.x) < share && vector < p.hidden / 8;
  Row<kSources, 1> r{};
  Eight weight{}, norm{};
  if (active) {
    if constexpr (kSources > 1) {
      weight = eight_at(p.res_norm, vector);
      const Eight proj = eight_at(p.res_proj, vector);
#pragma unroll
      for (int i = 0; i < 8; ++i) weight.value[i] *= proj.value[i];
    }
    norm = eight_at(p.norm, vector);
  }
  wait_for_previous_kernel();
  if (active) {
#pragma unroll
    for (int s = 0; s < kSources; ++s) r.source[0][s] = vectors(p.source[s], row, p.hidden)[vector];
    uint4 delta{};
    if (p.delta != nullptr) delta = vectors(p.delta, row, p.hidden)[vector];
    if (p.delta != nullptr) {
      r.add_delta(0, delta);
      const_cast<uint4*>(vectors(p.prefix, row, p.hidden))[vector] = r.source[0][kSources - 1];
    }
  }
  float sums[kSums] = {};
  r.add_sums(0, weight, sums);
  // A source alone is the mix: its squares need not wait for the first sums.
  if constexpr (kSources == 1) sums[0] = sum_of_squares(r.mix(0, 1));
  // Every block has started: its shared memory may be written.
  if constexpr (kBlocks > 1) cluster_wait();
  row_sums(first_shared, sums);
  if (blockIdx.x % kBlocks == 0 && threadIdx.x == 0) {
    tag_bad(p, row, total(first_shared, kSums - 1));
  }
  const auto hidden = static_cast<float>(p.hidden);
  const Eight h = r.mix(0, r.share(first_shared, hidden, p.mix_eps));
  float squares[1] = {sum_of_squares(h)};
  if constexpr (kSources > 1) {
    row_sums(second_shared, squares);
    squares[0] = total(second_shared, 0);
  } else {
    squares[0] = total(first_shared, 0);
  }
  const float scale = 1.0f / sqrtf(squares[0] / hidden + p.norm_eps);
  if (active) const_cast<uint4*>(vectors(p.out, row, p.hidden))[vector] = normed(h, norm, scale);
#endif
}

// Bandwidth: resident blocks, kVectors vectors a thread: fewer warps share the reductions.
constexpr int kVectors = 2;
constexpr int kResidentThreads = kMostHidden / 8 / kVectors;

// Dynamic shared memory: sources, delta, res_norm * res_proj, norm.
std::size_t resident_bytes(int sources, int hidden) {
  return static_cast<std::size_t>(hidden) *
         (static_cast<std::size_t>(sources + 1) * sizeof(bf16) + 2 * sizeof(float));
}

template <int kSources>
__device__ __forceinline__ void load_row(const MixNorm& p, std::int64_t row, uint4* staged,
                                         std::uint64_t* full) {
  const auto bytes = static_cast<std::uint32_t>(p.hidden * sizeof(bf16));
  const int count = kSources + (p.delta != nullptr ? 1 : 0);
  arrive_expecting(full, static_cast<std::uint32_t>(count) * bytes);
  for (int s = 0; s < count; ++s) {
    const void* from = s < kSources ? p.source[s] : p.delta;
    copy_bytes(staged + s * (p.hidden / 8), vectors(from, row, p.hidden), bytes, full);
  }
}

template <int kSources>
__global__ void __launch_bounds__(kResidentThreads, 1)
    resident_kernel(const __grid_constant__ MixNorm p, std::int64_t rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kSums = Row<kSources, kVectors>::kSums;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Sums<kSums, 1> first_shared;
  __shared__ Sums<1, 1> second_shared;
  __shared__ std::uint64_t full;
  const int in_row = p.hidden / 8;
  const auto threads = static_cast<int>(blockDim.x);
  const auto thread = static_cast<int>(threadIdx.x);
  auto* staged = reinterpret_cast<uint4*>(memory);
  auto* weight = reinterpret_cast<float*>(staged + (kSources + 1) * in_row);
  float* norm = weight + p.hidden;
  if (thread == 0) {
    barrier_init(&full, 1);
    barrier_init_fence();
    load_row<kSources>(p, blockIdx.x, staged, &full);
  }
  for (int d = thread; d < p.hidden; d += threads) {
    if constexpr (kSources > 1) weight[d] = p.res_norm[d] * p.res_proj[d];
    norm[d] = p.norm[d];
  }
  __syncthreads();
  std::uint32_t parity = 0;
  const auto hidden = static_cast<float>(p.hidden);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x, parity ^= 1u) {
    wait(&full, parity);
    Row<kSources, kVectors> r{};
    uint4 delta[kVectors] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = thread + v * threads;
      if (at >= in_row) continue;
#pragma unroll
      for (int s = 0; s < kSources; ++s) r.source[v][s] = staged[s * in_row + at];
      if (p.delta != nullptr) delta[v] = staged[kSources * in_row + at];
    }
    __syncthreads();  // all have read the stage
    if (thread == 0 && row + gridDim.x < rows) {
      load_row<kSources>(p, row + gridDim.x, staged, &full);
    }
    float sums[kSums] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = thread + v * threads;
      if (at >= in_row) continue;
      if (p.delta != nullptr) {
        r.add_delta(v, delta[v]);
        const_cast<uint4*>(vectors(p.prefix, row, p.hidden))[at] = r.source[v][kSources - 1];
      }
      r.add_sums(v, kSources > 1 ? eight_at(weight, at) : Eight{}, sums);
    }
    row_sums(first_shared, sums);
    if (thread == 0) tag_bad(p, row, total(first_shared, kSums - 1));
    const float share = r.share(first_shared, hidden, p.mix_eps);
    Eight h[kVectors];
    float squares[1] = {0};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      h[v] = r.mix(v, share);
      squares[0] += sum_of_squares(h[v]);
    }
    row_sums(second_shared, squares);
    const float scale = 1.0f / sqrtf(total(second_shared, 0) / hidden + p.norm_eps);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = thread + v * threads;
      if (at >= in_row) continue;
      const_cast<uint4*>(vectors(p.out, row, p.hidden))[at] =
          normed(h[v], eight_at(norm, at), scale);
    }
  }
#endif
}

template <int kSources, int kBlocks>
void launch_cluster(Context& context, const MixNorm& p, std::int64_t rows) {
  const int threads = (p.hidden / 8 + kBlocks - 1) / kBlocks;
  launch({.name = "mix_norm: a cluster a row",
          .grid = dim3(static_cast<unsigned>(rows * kBlocks)),
          .block = dim3(static_cast<unsigned>((threads + 31) / 32 * 32)),
          .stream = context.stream,
          .overlap = true},
         cluster_kernel<kSources, kBlocks>, p);
}

template <int kSources>
void launch_sources(Context& context, const MixNorm& p, std::int64_t rows) {
  // The two bodies sum in different orders: deterministic mode stays with one.
  if (rows <= kMostClusterRows || context.deterministic) {
    // One source has two sums: a cluster takes longer to add them than a block to read the row.
    constexpr int kFew = kSources == 1 ? 1 : kCluster;
    if (p.hidden <= 8 * kMostAloneThreads) {
      launch_cluster<kSources, kFew>(context, p, rows);
    } else {
      launch_cluster<kSources, kCluster>(context, p, rows);
    }
    return;
  }
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(rows, context.device.num_sms));
  const auto threads = static_cast<unsigned>((p.hidden / 8 + 32 * kVectors - 1) / (32 * kVectors));
  launch({"mix_norm: resident blocks", blocks, 32 * threads, resident_bytes(kSources, p.hidden),
          context.stream},
         resident_kernel<kSources>, p, rows);
}

}  // namespace

bool serves_mix_norm(const Context& context, const MixNorm& p) {
  return context.device.is_hopper() && context.activation == DType::kBf16 &&
         p.num_sources <= kMostSources && p.hidden % 8 == 0 && p.hidden <= kMostHidden;
}

void mix_norm(Context& context, const MixNorm& p, std::int64_t rows) {
  switch (p.num_sources) {
    case 1:
      return launch_sources<1>(context, p, rows);
    case 2:
      return launch_sources<2>(context, p, rows);
    case 3:
      return launch_sources<3>(context, p, rows);
    case 4:
      return launch_sources<4>(context, p, rows);
    case 5:
      return launch_sources<5>(context, p, rows);
    case 6:
      return launch_sources<6>(context, p, rows);
    case 7:
      return launch_sources<7>(context, p, rows);
    case 8:
      return launch_sources<8>(context, p, rows);
    default:
      return launch_sources<9>(context, p, rows);
  }
}

}  // namespace baltoro::cuda::sm90
