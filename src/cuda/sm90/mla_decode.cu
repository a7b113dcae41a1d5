// Absorbed MLA decode on Hopper. Heads lie on the N axis of wgmma, so that 96 heads need no padding:
//   scores^T[64 keys, N] = C[64, 576] q^T        one warpgroup, then the softmax
//   out^T[512, N]       += C^T[512, 64] p^T      two warpgroups, 256 channels each in registers
// A page is nine tiles of [64 tokens, 64 channels] in shared memory, read by both products. Registers
// and shared memory hold 48 heads; more go to blocks that walk the same pages at the same time, so
// that all but the first read them from the L2 cache. Two such blocks run near each other, on one side
// of the L2 cache. Latents in fp8 become such tiles on the way (mla_widen.cuh).
#include <algorithm>
#include <cmath>

#include "cuda/device/activation.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_decode.h"
#include "cuda/sm90/mla_decode.cuh"
#include "cuda/sm90/mla_widen.cuh"
#include "cuda/sm90/tensor_map.h"
#include "cuda/sm90/tma.cuh"
#include "cuda/sm90/wgmma.cuh"

namespace baltoro::cuda::sm90 {
namespace {

// Scores (base 2) may exceed the running maximum by this before the sums are rescaled: until then
// probabilities are just above 1.
constexpr float kSlack = 8.0f;

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Sums or maxima of kCount values over the 8 lanes of equal lane % 4. A lane keeps a part of them,
// the values first, first + 1, ... of the list.
template <int kCount, int kLaneBit, typename Op>
__device__ __forceinline__ void fold(float* values, int& first, Op op) {
  const bool upper = (threadIdx.x & kLaneBit) != 0;
  if constexpr (kCount % 2 == 0) {
    constexpr int kHalf = kCount / 2;
#pragma unroll
    for (int k = 0; k < kHalf; ++k) {
      const float give = upper ? values[k] : values[k + kHalf];
      const float keep = upper ? values[k + kHalf] : values[k];
      values[k] = op(keep, __shfl_xor_sync(0xffffffffu, give, kLaneBit));
    }
    first += upper ? kHalf : 0;
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      values[k] = op(values[k], __shfl_xor_sync(0xffffffffu, values[k], kLaneBit));
    }
  }
}
constexpr int halved(int count) { return count % 2 == 0 ? count / 2 : count; }

template <int kCount, typename Op>
__device__ __forceinline__ int fold_rows(float (&values)[kCount], Op op) {
  int first = 0;
  fold<kCount, 16>(values, first, op);
  fold<halved(kCount), 8>(values, first, op);
  fold<halved(halved(kCount)), 4>(values, first, op);
  return first;
}
template <int kN>
constexpr int kKept = halved(halved(halved(kN / 4)));

// The head of entry `i` of such a list.
__device__ __forceinline__ int column_of(int i) {
  return i / 2 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
}

template <int kN, bool kFp8>
struct Scores {
  Shared<kN, kFp8>& shared;
  const Decode& p;
  float largest = -INFINITY;   // of head threadIdx.x % kGroup, base 2
  float top[kN / 4];           // the same of the heads column_of(i)
  float sum[kN / 4];           // of their probabilities, this thread's keys
  Ring<kRing<kN, kFp8>> ring;  // at the tiles of the page after the multiplied ones
  Ring<2> buffer;              // of probability

  __device__ Scores(Shared<kN, kFp8>& shared_memory, const Decode& params)
      : shared(shared_memory), p(params) {
    start();
  }

  // A segment.
  __device__ __forceinline__ void start() {
    largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {
      top[i] = -INFINITY;
      sum[i] = 0;
    }
  }

  // Starts scores^T of the next page.
  __device__ __forceinline__ void multiply(float (&s)[kN / 2]) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const Ring<kRing<kN, kFp8>> at = ring.ahead(i);
      wait(&shared.full[at.slot], at.parity);
      const std::uint64_t a = tile_descriptor(shared_address(shared.tile[at.slot]));
      const std::uint64_t b = tile_descriptor(shared_address(shared.query[tile_in_order<kFp8>(i)]));
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) Wgmma<kN>::multiply(s, a + 2 * k, b + 2 * k, i + k > 0);
    }
    wgmma_commit();
    ring = ring.ahead(kTiles);
  }

  // Whether a score of any thread exceeds its head's running maximum by more than the slack. A
  // barrier of the warpgroup.
  __device__ __forceinline__ bool any_above(const float (&s)[kN / 2]) const {
    float excess = -INFINITY;
#pragma unroll
    for (int e = 0; e < kN / 2; ++e) {
      excess = fmaxf(excess, s[e] * p.scale - top[e / 4 * 2 + e % 2]);
    }
    return group_any(kScoresBarrier, kGroup, !(excess <= kSlack));
  }

  // The running maxima of all heads, and by how much sums of before shrink.
  __device__ void raise_largest() {
    const int head = static_cast<int>(threadIdx.x % kGroup);
    if (head >= kN) return;
    float seen = shared.by_warp[0][head];
    for (int w = 1; w < 4; ++w) seen = fmaxf(seen, shared.by_warp[w][head]);
    seen *= p.scale;
    float shrink = 1;
    if (!(seen <= largest + kSlack)) {
      shrink = exp2_approximate(largest - seen);
      largest = seen;
    }
    shared.largest[head] = largest;
    shared.shrink[buffer.slot][head] = shrink;
  }

  // Where a score is far above: maxima over the keys of the page, and what follows from them.
  __device__ void rescale(const float (&s)[kN / 2]) {
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    float most[kN / 4];
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {
      const int e = i / 2 * 4 + i % 2;
      most[i] = fmaxf(s[e], s[e + 2]);
    }
    const int first = fold_rows(most, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
    for (int k = 0; k < kKept<kN>; ++k) shared.by_warp[warp][column_of(first + k)] = most[k];
    group_sync(kScoresBarrier, kGroup);
    raise_largest();
    group_sync(kScoresBarrier, kGroup);
#pragma unroll
    for (int i = 0; i < kN / 4; i += 2) {
      const float2 now = *reinterpret_cast<const float2*>(&shared.largest[column_of(i)]);
      const float2 shrink =
          *reinterpret_cast<const float2*>(&shared.shrink[buffer.slot][column_of(i)]);
      top[i] = now.x;
      top[i + 1] = now.y;
      sum[i] *= shrink.x;
      sum[i + 1] *= shrink.y;
    }
  }

  // Rows behind the last key hold anything, and 0 * NaN is NaN. `ring` is behind the page.
  __device__ void clear_rows(const Ring<kRing<kN, kFp8>>& page, int valid) {
    const int per_tile = (64 - valid) * (kRowBytes / 16);
    for (int i = static_cast<int>(threadIdx.x % kGroup); i < per_tile * 2 * kValueTiles;
         i += kGroup) {
      const int slot = page.ahead(kFirstPlace<kFp8> + i / per_tile).slot;
      auto* rows = reinterpret_cast<uint4*>(shared.tile[slot] + valid * kRowBytes);
      rows[i % per_tile] = make_uint4(0, 0, 0, 0);
    }
  }

  __device__ __forceinline__ void store_probabilities(const float (&s)[kN / 2]) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    const int matrix = lane / 8;
    const std::uint32_t base = shared_address(shared.probability[buffer.slot]);
#pragma unroll
    for (int g = 0; g < kN / 8; g += 2) {
      std::uint32_t packed[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const int e = 4 * (g + m / 2) + 2 * (m % 2);
        const __nv_bfloat162 pair = __floats2bfloat162_rn(s[e], s[e + 1]);
        packed[m] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
      const int head = 8 * (g + matrix / 2) + lane % 8;
      const int sixteen_bytes = (2 * warp + matrix % 2) ^ (lane % 8);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       base + head * kRowBytes + sixteen_bytes * 16),
                   "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                   : "memory");
    }
  }

  // The softmax of a page whose scores^T are in s; `page` is its place in the ring, whose
  // tile of the side key is given back.
  __device__ __forceinline__ void softmax(float (&s)[kN / 2], const Ring<kRing<kN, kFp8>>& page,
                                          int valid) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    if (valid < 64) {
      const int row = warp * 16 + lane / 4;
#pragma unroll
      for (int e = 0; e < kN / 2; ++e) {
        if (row + (e % 4) / 2 * 8 >= valid) s[e] = -INFINITY;
      }
    }
    const bool rescales = any_above(s);
    if (threadIdx.x % kGroup == 0) arrive(&shared.used[page.ahead(kSidePlace<kFp8>).slot]);
    if (valid < 64) clear_rows(page, valid);
    wait(&shared.probability_used[buffer.slot], buffer.parity ^ 1u);
    if (threadIdx.x % kGroup == 0) shared.rescales[buffer.slot] = rescales ? 1 : 0;
    if (rescales) rescale(s);
#pragma unroll
    for (int g = 0; g < kN / 8; ++g) {
#pragma unroll
      for (int e = 4 * g; e < 4 * g + 4; ++e) {
        s[e] = exp2_approximate(s[e] * p.scale - top[2 * g + e % 2]);
      }
      sum[2 * g] += s[4 * g] + s[4 * g + 2];
      sum[2 * g + 1] += s[4 * g + 1] + s[4 * g + 3];
    }
    store_probabilities(s);
    publish_stores();
    group_sync(kScoresBarrier, kGroup);
    if (threadIdx.x % kGroup == 0) arrive(&shared.probability_full[buffer.slot]);
    buffer = buffer.ahead(1);
  }

  // Writes the sums of the segment, and starts anew.
  __device__ void finish(int index, int first_head) {
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    const int first = fold_rows(sum, [](float a, float b) { return a + b; });
#pragma unroll
    for (int k = 0; k < kKept<kN>; ++k) shared.by_warp[warp][column_of(first + k)] = sum[k];
    group_sync(kScoresBarrier, kGroup);
    const int head = static_cast<int>(threadIdx.x % kGroup);
    if (head < kN && first_head + head < p.num_heads) {
      const float all = shared.by_warp[0][head] + shared.by_warp[1][head] +
                        shared.by_warp[2][head] + shared.by_warp[3][head];
      p.partial_sum[static_cast<std::int64_t>(index) * p.num_heads + first_head + head] =
          make_float2(largest, all);
    }
    start();
    group_sync(kScoresBarrier, kGroup);
  }
};

template <int kN, bool kFp8>
struct Values {
  Shared<kN, kFp8>& shared;
  const Decode& p;
  int half;  // 0: channels 0..255
  Ring<kRing<kN, kFp8>> ring;
  Ring<2> buffer;
  float out[kValueTiles][kN / 2];

  __device__ Values(Shared<kN, kFp8>& shared_memory, const Decode& params, int which)
      : shared(shared_memory), p(params), half(which) {}

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int t = 0; t < kValueTiles; ++t) {
#pragma unroll
      for (int e = 0; e < kN / 2; ++e) out[t][e] = 0;
    }
  }

  __device__ __forceinline__ void rescale() {
#pragma unroll
    for (int g = 0; g < kN / 8; ++g) {
      const float2 shrink =
          *reinterpret_cast<const float2*>(&shared.shrink[buffer.slot][column_of(2 * g)]);
#pragma unroll
      for (int t = 0; t < kValueTiles; ++t) {
        out[t][4 * g] *= shrink.x;
        out[t][4 * g + 1] *= shrink.y;
        out[t][4 * g + 2] *= shrink.x;
        out[t][4 * g + 3] *= shrink.y;
      }
    }
  }

  template <int kTile>
  __device__ __forceinline__ void finish_tile() {
    wgmma_wait<kValueTiles - 1 - kTile>();
    group_sync(kValuesBarrier + half, kGroup);
    if (threadIdx.x % kGroup == 0)
      arrive(&shared.used[ring.ahead(kFirstPlace<kFp8> + 2 * kTile + half).slot]);
  }

  __device__ __forceinline__ void page() {
    wait(&shared.probability_full[buffer.slot], buffer.parity);
    if (shared.rescales[buffer.slot] != 0) rescale();
    const std::uint64_t b = tile_descriptor(shared_address(shared.probability[buffer.slot]));
#pragma unroll
    for (int t = 0; t < kValueTiles; ++t) {
      const Ring<kRing<kN, kFp8>> at = ring.ahead(kFirstPlace<kFp8> + 2 * t + half);
      wait(&shared.full[at.slot], at.parity);
      const std::uint64_t a = tile_descriptor(shared_address(shared.tile[at.slot]));
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        Wgmma<kN>::multiply_transposed_a(out[t], a + k * (16 * kRowBytes >> 4), b + 2 * k, true);
      }
      wgmma_commit();
    }
    finish_tile<0>();
    finish_tile<1>();
    finish_tile<2>();
    finish_tile<3>();
#pragma unroll
    for (int t = 0; t < kValueTiles; ++t) hold(out[t]);
    if (threadIdx.x % kGroup == 0) arrive(&shared.probability_used[buffer.slot]);
    ring = ring.ahead(kTiles);
    buffer = buffer.ahead(1);
  }

  __device__ __forceinline__ void finish(int index, int first_head) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x % kGroup / 32);
    float* to = p.partial + (static_cast<std::int64_t>(index) * p.num_heads + first_head) * kRank +
                half * (kRank / 2) + warp * 16 + lane / 4;
#pragma unroll
    for (int g = 0; g < kN / 8; ++g) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int head = column_of(2 * g + e);
        if (first_head + head >= p.num_heads) continue;
#pragma unroll
        for (int t = 0; t < kValueTiles; ++t) {
          to[head * kRank + t * 64] = out[t][4 * g + e];
          to[head * kRank + t * 64 + 8] = out[t][4 * g + 2 + e];
        }
      }
    }
  }
};

// Calls visit(segment, row) for each segment of the block in order.
template <typename Visit>
__device__ __forceinline__ void for_each_segment(const Decode& p, Visit visit) {
  std::int32_t from = 0;
  for (;;) {
    const Segment segment = segment_at(p.plan, static_cast<int>(blockIdx.x), from);
    if (segment.begin >= segment.end) return;
    const SplitRow row = p.plan.rows[segment.ordinal];
    visit(segment, row);
    from = row.pages_before + segment.end;
  }
}

// The queries of a segment, by one thread. `parity`: of the phase that ends when those before are used.
template <int kN, bool kFp8>
__device__ __forceinline__ void load_queries(Shared<kN, kFp8>& shared, const Decode& p, int ordinal,
                                             int first_head, std::uint32_t& parity) {
  wait(&shared.query_used, parity);
  parity ^= 1u;
  arrive_expecting(&shared.query_full, kTiles * kN * kRowBytes);
  for (int tile = 0; tile < kTiles; ++tile) {
    copy_tile(shared.query[tile], p.queries, tile * 64, ordinal * p.num_heads + first_head,
              &shared.query_full);
  }
}

// One thread.
template <int kN>
__device__ __forceinline__ void run_loads(Shared<kN, false>& shared, const Decode& p,
                                          int first_head) {
  constexpr bool kFp8 = false;
  Ring<kRing<kN, kFp8>> ring;
  std::uint32_t query_parity = 1;
  for_each_segment(p, [&](const Segment& segment, const SplitRow& row) {
    load_queries(shared, p, segment.ordinal, first_head, query_parity);
    const std::int32_t* pages = p.pages + row.first_page;
    int page_id = pages[segment.begin];
    for (int i = segment.begin; i < segment.end; ++i) {
      const int next = i + 1 < segment.end ? pages[i + 1] : 0;
      for (int t = 0; t < kTiles; ++t) {
        wait(&shared.used[ring.slot], ring.parity ^ 1u);
        arrive_expecting(&shared.full[ring.slot], kTileBytes);
        copy_tile(shared.tile[ring.slot], p.latents, tile_in_order<kFp8>(t) * 64, page_id * 64,
                  &shared.full[ring.slot]);
        ring = ring.ahead(1);
      }
      page_id = next;
    }
  });
}

template <int kN>
__device__ __forceinline__ void run_widening(Shared<kN, true>& shared, const Decode& p,
                                             int first_head) {
  Widening<kN> widening(shared, p);
  std::uint32_t query_parity = 1;
  for_each_segment(p, [&](const Segment& segment, const SplitRow& row) {
    if (threadIdx.x == 0) load_queries(shared, p, segment.ordinal, first_head, query_parity);
    widening.run(segment, p.pages + row.first_page);
  });
}

template <int kN, bool kFp8>
__device__ __forceinline__ void run_scores(Shared<kN, kFp8>& shared, const Decode& p,
                                           int first_head) {
  Scores<kN, kFp8> scores(shared, p);
  std::uint32_t query_parity = 0;
  for_each_segment(p, [&](const Segment& segment, const SplitRow& row) {
    wait(&shared.query_full, query_parity);
    query_parity ^= 1u;
    const auto finish_page = [&](float(&s)[kN / 2], const Ring<kRing<kN, kFp8>>& place, int i) {
      scores.softmax(s, place, min(64, row.length - i * 64));
    };
    float s[kN / 2];
    for (int i = segment.begin; i < segment.end; ++i) {
      const Ring<kRing<kN, kFp8>> place = scores.ring;
      scores.multiply(s);
      wgmma_wait<0>();
      hold(s);
      finish_page(s, place, i);
    }
    if (threadIdx.x % kGroup == 0) arrive(&shared.query_used);
    scores.finish(segment.index, first_head);
  });
}

template <int kN, bool kFp8>
__device__ __forceinline__ void run_values(Shared<kN, kFp8>& shared, const Decode& p,
                                           int first_head, int half) {
  Values<kN, kFp8> values(shared, p, half);
  for_each_segment(p, [&](const Segment& segment, const SplitRow&) {
    values.clear();
    for (int i = segment.begin; i < segment.end; ++i) values.page();
    values.finish(segment.index, first_head);
  });
}

template <int kN, bool kFp8>
__device__ void init_barriers(Shared<kN, kFp8>& shared) {
  barrier_init(&shared.query_full, 1);
  barrier_init(&shared.query_used, 1);
  for (int i = 0; i < 2; ++i) {
    barrier_init(&shared.probability_full[i], 1);
    barrier_init(&shared.probability_used[i], 2);
  }
  for (int i = 0; i < kRing<kN, kFp8>; ++i) {
    barrier_init(&shared.full[i], 1);
    barrier_init(&shared.used[i], 1);
  }
  if constexpr (kFp8) {
    for (std::uint64_t& full : shared.CodeTiles<kCodePairs<kN>>::full) barrier_init(&full, 1);
  }
  barrier_init_fence();
}

template <int kN, bool kFp8>
__global__ void __launch_bounds__(kThreads, 1) decode_kernel(const __grid_constant__ Decode p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<kN, kFp8>*>(memory);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();
  start_next_kernel();
  wait_for_previous_kernel();
  const int first_head = static_cast<int>(blockIdx.y) * kN;
  const int group = static_cast<int>(threadIdx.x / kGroup);
  if (group == 0) {
    if constexpr (kFp8) {
      give_registers<56>();
      run_widening(shared, p, first_head);
    } else {
      give_registers<40>();
      if (threadIdx.x == 0) run_loads(shared, p, first_head);
    }
  } else if (group == 1) {
    take_registers<152>();
    run_scores(shared, p, first_head);
  } else {
    take_registers<152>();
    run_values(shared, p, first_head, group - 2);
  }
#endif
}

// Blocks that share the heads of a page, and the heads of each, padded.
struct HeadSplit {
  int blocks, heads;
};
HeadSplit head_split(std::int64_t heads) {
  const auto blocks = static_cast<int>(ceil_div(heads, 48));
  const std::int64_t each = ceil_div(heads, blocks);
  return {blocks, each <= 16 ? 16 : each <= 32 ? 32 : 48};
}

}  // namespace

bool serves_mla_decode(const Context& context, const MlaArgs& args) {
  const MlaShape& shape = args.shape;
  return context.device.is_hopper() && shape.kind == MlaKind::kLatent && shape.kv_rank == kRank &&
         shape.rope_dim == kSide && context.activation == DType::kBf16 &&
         args.kv_b.format == WeightFormat::kBf16;
}

std::int32_t mla_decode_blocks(const Context& context, const MlaArgs& args) {
  return std::max(1, context.device.num_sms / head_split(args.shape.num_heads).blocks);
}

void mla_decode_segments(Context& context, const MlaArgs& args, const DecodeBuffers& buffers) {
  const HeadSplit split = head_split(args.shape.num_heads);
  const bool fp8 = args.cache.dtype == DType::kE4m3;
  Decode p{};
  if (fp8) {
    const auto* first = static_cast<const unsigned char*>(args.cache.data);
    const std::int64_t pages = args.cache.num_pages;
    p.latents = page_map(first, PageOf::kBytes, kRank, pages, kFp8Page.bytes());
    p.sides = page_map(first + kFp8Page.side_at(0), PageOf::kBf16, kSide, pages, kFp8Page.bytes());
    p.scales = first + kFp8Page.scale_at(0);
  } else {
    p.latents = tile_map(args.cache.data, args.cache.num_pages * kBlockTokens, kWidth, kWidth, 64);
  }
  p.queries = tile_map(buffers.queries, buffers.plan.num_rows * args.shape.num_heads, kWidth,
                       kWidth, split.heads);
  p.plan = buffers.plan;
  p.pages = context.stage.batch(args.batch).pages;
  p.partial = buffers.partial;
  p.partial_sum = buffers.partial_sum;
  p.scale =
      static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(args.shape.qk_dim())));
  p.num_heads = static_cast<int>(args.shape.num_heads);
  const auto run = [&](auto kernel, std::size_t shared_bytes) {
    const dim3 grid(static_cast<unsigned>(p.plan.num_blocks), static_cast<unsigned>(split.blocks));
    launch({.name = "mla_decode",
            .grid = grid,
            .block = kThreads,
            .shared_bytes = shared_bytes,
            .stream = context.stream,
            .overlap = true,
            .near_y = split.blocks == 2 ? 2u : 1u},
           kernel, p);
  };
  const auto run_with = [&](auto fp8_latents) {
    constexpr bool kFp8 = decltype(fp8_latents)::value;
    if (split.heads == 16) return run(decode_kernel<16, kFp8>, sizeof(Shared<16, kFp8>));
    if (split.heads == 32) return run(decode_kernel<32, kFp8>, sizeof(Shared<32, kFp8>));
    run(decode_kernel<48, kFp8>, sizeof(Shared<48, kFp8>));
  };
  fp8 ? run_with(std::true_type()) : run_with(std::false_type());
}

}  // namespace baltoro::cuda::sm90
