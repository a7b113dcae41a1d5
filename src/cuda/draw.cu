// Tokens drawn from rows of logits in device memory. Weights have the bits of the sampler's
// (ops/logits.h); they are added as integers, so that no order of the terms matters, and a draw whose
// outcome the rounding to integers or that of the host's sums might move stays undecided.
//
// Four kernels. The largest logits of 1024 chunks of a row; of those the largest, and, for top-k and
// top-p, the k-th or 256th largest: a bound that at least so many logits reach and few more do. The weights, summed
// by parts of the row, and the logits that reach the bound. The draw: by token id within the part in
// which it falls, or from the sorted list.
#include <cstdint>

#include "cuda/context.h"
#include "cuda/device/exp_below.cuh"
#include "cuda/launch.cuh"
#include "cuda/scratch.h"

namespace baltoro::cuda {
namespace {

using Key = unsigned long long;
using Sum = unsigned long long;

constexpr int kDepth = static_cast<int>(kDrawDepth);
constexpr int kChunks = 1024;
constexpr int kGathered = 2048;  // room for what reaches the bound
constexpr int kThreads =
    256;  // one for each of the list, of the parts twice, of the values of a byte
constexpr int kParts = 128;  // of a row
constexpr int kWarps = kThreads / 32;
constexpr Key kBadKey = ~Key{0};

struct Rows {
  const float* logits;  // [n, vocab]
  int vocab;
  const Draw* draws;  // [n]
  float one;          // a weight of 1 as an integer: as large as the sum of a row allows
};

struct Part {
  Sum plain;  // of weights at temperature 1
  Sum all;    // of weights at the draw's
  Sum kept;   // of those, what min-p leaves
  int positive;
};

// What is known of a row before its logits are weighed.
struct Bound {
  Key least;  // of the list; 0: every logit that is allowed
  Key best;   // kBadKey: the row is not finite; 0: it has no token
  int count;  // gathered
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

// Whether the draw goes through the most likely tokens; else it goes by id, or there is none.
__device__ __forceinline__ bool has_list(const Draw& draw) {
  return draw.temperature > 0 && (draw.top_k > 0 || draw.top_p < 1);
}
__device__ __forceinline__ bool allowed(const Draw& draw, int id) {
  return draw.banned == nullptr || draw.banned[id] == 0;
}
__device__ __forceinline__ float tempered(const Draw& draw, float logit, float max) {
  return weight_of(__fdiv_rn(__fsub_rn(logit, max), draw.temperature));
}
__device__ __forceinline__ Sum integer(float weight, float one) {
  return __float2ull_rn(__fmul_rn(weight, one));
}

// Descending, `count` keys, a power of two, by all kThreads threads of a block.
__device__ void sort_keys(Key* keys, int count) {
  for (int size = 2; size <= count; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count / 2; i += kThreads) {
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

template <typename T>
__device__ __forceinline__ T warp_total(T value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// The sum of the values of the threads up to this one, by all kThreads threads of a block. `sums`: one
// of shared memory for each warp; the last is the sum of all.
__device__ Sum scan(Sum value, Sum* sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const Sum before = __shfl_up_sync(0xffffffffu, value, offset);
    if (lane >= offset) value += before;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; ++i) value += sums[i];
  if (threadIdx.x == kThreads - 1) sums[kWarps] = value;
  __syncthreads();
  return value;
}

// Grid: (eight chunks, row). A warp has a chunk.
__global__ void __launch_bounds__(kThreads) find_maxima(Rows rows, int chunk, Key* maxima) {
  const int index =
      static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const float* row = rows.logits + static_cast<std::int64_t>(blockIdx.y) * rows.vocab;
  const Draw draw = rows.draws[blockIdx.y];
  const int begin = index * chunk, end = min(rows.vocab, begin + chunk);
  Key best = 0;
  for (int i = begin + static_cast<int>(threadIdx.x) % 32; i < end; i += 32) {
    const float logit = row[i];
    if (!isfinite(logit)) {
      best = kBadKey;
    } else if (allowed(draw, i)) {
      best = max(best, key_of(logit, i));
    }
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffffu, best, offset));
  }
  if (threadIdx.x % 32 == 0) maxima[blockIdx.y * kChunks + index] = best;
}

// A bound that at least `depth` of the keys reach, more only where logits are equal: byte by byte of
// the logits, the largest value that as many reach.
__device__ Key bound_of(const Key (&keys)[kChunks / kThreads], int depth) {
  __shared__ int counts[kThreads];
  __shared__ Sum sums[kWarps + 1];
  __shared__ std::uint32_t digit;
  __shared__ int above;
  std::uint32_t known = 0, mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (const Key key : keys) {
      const auto logit = static_cast<std::uint32_t>(key >> 32);
      if ((logit & mask) == known) atomicAdd(&counts[logit >> shift & 255], 1);
    }
    __syncthreads();
    // From the largest value on.
    const int value = kThreads - 1 - static_cast<int>(threadIdx.x);
    const int own = counts[value];
    const int upto = static_cast<int>(scan(static_cast<Sum>(own), sums));
    if (upto >= depth && upto - own < depth) {
      digit = static_cast<std::uint32_t>(value);
      above = upto - own;
    }
    __syncthreads();
    known |= digit << shift;
    mask |= std::uint32_t{255} << shift;
    depth -= above;
  }
  return static_cast<Key>(known) << 32;
}

// Grid: (row).
__global__ void __launch_bounds__(kThreads)
    find_bound(Rows rows, const Key* maxima, Bound* bounds) {
  __shared__ Key of_warp[kWarps];
  const Draw draw = rows.draws[blockIdx.x];
  Key keys[kChunks / kThreads], best = 0;
  for (int i = 0; i < kChunks / kThreads; ++i) {
    keys[i] = maxima[blockIdx.x * kChunks + i * kThreads + threadIdx.x];
    best = max(best, keys[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffffu, best, offset));
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  for (const Key other : of_warp) best = max(best, other);
  // Top-k alone looks no further.
  const int depth = draw.top_k > 0 ? draw.top_k : kDepth;
  const Key least = has_list(draw) ? bound_of(keys, depth) : 0;
  if (threadIdx.x == 0) bounds[blockIdx.x] = {least, best, 0};
}

// Grid: (kParts, row).
__global__ void __launch_bounds__(kThreads)
    weigh(Rows rows, int part, Bound* bounds, Key* gathered, Part* parts) {
  __shared__ Part of_warp[kThreads / 32];
  const int row = static_cast<int>(blockIdx.y);
  const Bound bound = bounds[row];
  if (bound.best == 0 || bound.best == kBadKey) return;
  const Draw draw = rows.draws[row];
  const bool lists = has_list(draw);
  const float max = logit_of(bound.best);
  const float* values = rows.logits + static_cast<std::int64_t>(row) * rows.vocab;
  const int begin = static_cast<int>(blockIdx.x) * part, end = min(rows.vocab, begin + part);
  Part sum{0, 0, 0, 0};
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
    const float logit = values[i];
    if (!allowed(draw, i)) continue;
    const float plain = weight_of(__fsub_rn(logit, max));
    sum.plain += integer(plain, rows.one);
    if (draw.temperature > 0) {
      const float weight = draw.temperature == 1 ? plain : tempered(draw, logit, max);
      const Sum added = integer(weight, rows.one);
      sum.all += added;
      sum.kept += weight >= draw.min_p ? added : 0;
      sum.positive += weight > 0 ? 1 : 0;
    }
    const Key key = key_of(logit, i);
    if (!lists || key < bound.least) continue;
    const int at = atomicAdd(&bounds[row].count, 1);
    if (at < kGathered) gathered[row * kGathered + at] = key;
  }
  sum = {warp_total(sum.plain), warp_total(sum.all), warp_total(sum.kept),
         warp_total(sum.positive)};
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    sum.plain += of_warp[warp].plain;
    sum.all += of_warp[warp].all;
    sum.kept += of_warp[warp].kept;
    sum.positive += of_warp[warp].positive;
  }
  parts[row * kParts + static_cast<int>(blockIdx.x)] = sum;
}

// A row whose token is being chosen, in a block's shared memory.
struct Choosing {
  Part sum;              // of the row
  Sum margin;            // what a sum may be off by
  Sum offset;            // by id: what is wanted of the part in which the draw falls
  int part;              // and that part
  int crossing;          // in the list: the last of the nucleus; -1: not decided
  Key chosen;            // 0: none
  Sum sums[kWarps + 1];  // of scan()
};

// Rounding to integers moves a sum by at most half a vocabulary; the host's sums, of at most as many
// terms, are off by less than vocabulary * 2^-52 of them.
__device__ __forceinline__ Sum margin_of(Sum total, int vocab) {
  return static_cast<Sum>(vocab) * (2 + (total >> 52));
}
__device__ __forceinline__ Sum fraction(double part, Sum total) {
  return static_cast<Sum>(__dmul_rn(part, static_cast<double>(total)));
}
// Whether `wanted` lies between the two sums, and not too close to either.
__device__ __forceinline__ bool is_between(Sum before, Sum wanted, Sum after, Sum margin) {
  return wanted >= before + margin && wanted + margin < after;
}

// In the order of ids: what min-p leaves of all tokens that have a weight.
__device__ void choose_by_id(const Rows& rows, const Draw& draw, int part_size, const Part* parts,
                             float max, Choosing& c) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    c.part = 0;
    c.offset = ~Sum{0};
  }
  const Sum of_part = thread < kParts ? parts[thread].kept : 0;
  const Sum upto = scan(of_part, c.sums), wanted = fraction(draw.part, c.sum.kept);
  if (wanted >= upto - of_part && wanted < upto) {
    c.part = thread;
    c.offset = wanted - (upto - of_part);
  }
  __syncthreads();
  // Of the part, consecutive tokens each.
  const int each = (part_size + kThreads - 1) / kThreads;
  const int part_begin = c.part * part_size;
  const int part_end = min(rows.vocab, part_begin + part_size);
  const int begin = min(part_end, part_begin + thread * each), end = min(part_end, begin + each);
  const float* values = rows.logits + static_cast<std::int64_t>(blockIdx.x) * rows.vocab;
  const auto weight = [&](int i) -> Sum {
    if (!allowed(draw, i)) return 0;
    const float w = tempered(draw, values[i], max);
    return w >= draw.min_p ? integer(w, rows.one) : 0;
  };
  Sum own = 0;
  for (int i = begin; i < end; ++i) own += weight(i);
  Sum before = scan(own, c.sums) - own;
  if (c.offset < before || c.offset >= before + own) return;
  for (int i = begin; i < end; ++i) {
    const Sum after = before + weight(i);
    if (c.offset < after) {
      if (is_between(before, c.offset, after, c.margin)) c.chosen = key_of(values[i], i);
      return;
    }
    before = after;
  }
}

// From the `listed` most likely tokens, sorted, at most kDepth.
__device__ void choose_from_list(const Rows& rows, const Draw& draw, const Key* keys, int listed,
                                 Choosing& c) {
  const int thread = static_cast<int>(threadIdx.x);
  const bool has_k = draw.top_k > 0 && draw.top_k < c.sum.positive;
  if (has_k && listed < draw.top_k) return;
  const int limit = has_k ? draw.top_k : listed;
  const float weight =
      thread < limit ? tempered(draw, logit_of(keys[thread]), logit_of(keys[0])) : 0.0f;
  const Sum own = integer(weight, rows.one);
  const Sum upto = scan(own, c.sums);
  const Sum total = has_k ? c.sums[kWarps] : c.sum.all;
  if (draw.top_p < 1) {
    const Sum least = max(Sum{1}, fraction(draw.top_p, total));
    if (thread == 0) c.crossing = -1;
    __syncthreads();
    const Sum before = upto - own;
    if (thread < limit && before < least && upto >= least &&
        (thread == 0 || least - before > c.margin) && upto - least > c.margin) {
      c.crossing = thread;
    }
    __syncthreads();
    if (c.crossing < 0) return;
  }
  const int last = draw.top_p < 1 ? c.crossing : limit - 1;
  const Sum kept = thread <= last && weight >= draw.min_p ? own : 0;
  const Sum kept_upto = scan(kept, c.sums);
  const Sum all = c.sums[kWarps], wanted = fraction(draw.part, all);
  // A nucleus is gone through from the least likely on.
  const Sum before = draw.top_p < 1 ? all - kept_upto : kept_upto - kept;
  if (kept > 0 && is_between(before, wanted, before + kept, c.margin)) c.chosen = keys[thread];
}

// Grid: (row).
__global__ void __launch_bounds__(kThreads)
    choose(Rows rows, int part_size, const Bound* bounds, const Key* gathered, const Part* parts,
           Drawn* drawn) {
  __shared__ Key keys[kGathered];
  __shared__ Choosing c;
  const int thread = static_cast<int>(threadIdx.x);
  const Bound bound = bounds[blockIdx.x];
  const Draw draw = rows.draws[blockIdx.x];
  if (bound.best == 0 || bound.best == kBadKey) {
    if (thread == 0) drawn[blockIdx.x] = {-1, 0, bound.best == kBadKey ? 1 : 0};
    return;
  }
  const Part* of_row = parts + blockIdx.x * kParts;
  if (thread < 32) {
    Part sum{0, 0, 0, 0};
    for (int i = thread; i < kParts; i += 32) {
      sum.plain += of_row[i].plain;
      sum.all += of_row[i].all;
      sum.kept += of_row[i].kept;
      sum.positive += of_row[i].positive;
    }
    sum = {warp_total(sum.plain), warp_total(sum.all), warp_total(sum.kept),
           warp_total(sum.positive)};
    if (thread == 0) {
      c.sum = sum;
      c.margin = margin_of(sum.all, rows.vocab);
      c.chosen = draw.temperature == 0 ? bound.best : 0;
    }
  }
  __syncthreads();
  const float max = logit_of(bound.best);
  if (draw.temperature > 0) {
    const bool narrows = draw.top_p < 1 || (draw.top_k > 0 && draw.top_k < c.sum.positive);
    if (!narrows) {
      choose_by_id(rows, draw, part_size, of_row, max, c);
    } else if (bound.count <= kGathered) {
      int size = 32;
      while (size < bound.count) size *= 2;
      for (int i = thread; i < size; i += kThreads) {
        keys[i] = i < bound.count ? gathered[blockIdx.x * kGathered + i] : 0;
      }
      sort_keys(keys, size);
      choose_from_list(rows, draw, keys, min(bound.count, kDepth), c);
    }
    __syncthreads();
  }
  if (thread != 0) return;
  if (c.chosen == 0) {
    drawn[blockIdx.x] = {-1, 0, 0};
    return;
  }
  const double norm = log(static_cast<double>(c.sum.plain) / static_cast<double>(rows.one));
  const double below = static_cast<double>(logit_of(c.chosen)) - static_cast<double>(max);
  drawn[blockIdx.x] = {id_of(c.chosen), static_cast<float>(below - norm), 0};
}

// A power of two of which a vocabulary of them is below 2^63.
float largest_unit(std::int64_t vocab) {
  float one = 1;
  for (std::int64_t sum = vocab; sum < std::int64_t{1} << 62; sum *= 2) one *= 2;
  return one;
}

}  // namespace

void draw(Context& context, const float* logits, std::int64_t vocab, std::span<const Draw> draws,
          Drawn* drawn) {
  const auto count = static_cast<std::int64_t>(draws.size());
  Scratch& scratch = context.scratch;
  scratch.begin(Scratch::bytes_of<Key>(count * kChunks) + Scratch::bytes_of<Bound>(count) +
                Scratch::bytes_of<Key>(count * kGathered) +
                Scratch::bytes_of<Part>(count * kParts));
  Key* maxima = scratch.take<Key>(count * kChunks);
  Bound* bounds = scratch.take<Bound>(count);
  Key* gathered = scratch.take<Key>(count * kGathered);
  Part* parts = scratch.take<Part>(count * kParts);
  const Rows rows{logits, static_cast<int>(vocab), context.stage.draws(draws), largest_unit(vocab)};
  const auto n = static_cast<unsigned>(count);
  const int chunk = static_cast<int>(ceil_div(vocab, kChunks));
  const int part = static_cast<int>(ceil_div(vocab, kParts));
  launch({"draw: maxima of the logits", dim3(kChunks / (kThreads / 32), n), kThreads, 0,
          context.stream},
         find_maxima, rows, chunk, maxima);
  launch({"draw: bound of the largest", n, kThreads, 0, context.stream}, find_bound, rows, maxima,
         bounds);
  launch({"draw: weigh the logits", dim3(kParts, n), kThreads, 0, context.stream}, weigh, rows,
         part, bounds, gathered, parts);
  launch({"draw: choose", n, kThreads, 0, context.stream}, choose, rows, part, bounds, gathered,
         parts, drawn);
}

}  // namespace baltoro::cuda
