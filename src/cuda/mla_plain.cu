// Attention in the absorbed form for any shape: one block per (row, head) raises the query into the
// latent, walks the pages in order with a running softmax, and projects the result.
#include <cmath>

#include "cuda/device/activation.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/rotate.cuh"
#include "cuda/device/weight_row.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_parts.h"
#include "ops/latent_page.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPage = static_cast<int>(kBlockTokens);

struct Attend {
  DeviceBatch batch;
  MlaShape shape;
  std::int64_t qk_dim, cache_width;  // of the shape
  const void* q;
  const void* gate;  // or null
  const void* cache;
  void* out;
  WeightView kv_b;
  float theta;  // 0: not rotated
  float scale;
  int is_generated;
};

// What one head sees of a cached row.
struct HeadColumns {
  int keys, key_width, values, value_width;
};

__device__ HeadColumns columns_of(const MlaShape& s, int head) {
  if (s.kind != MlaKind::kGqa) {
    const int rank = static_cast<int>(s.kv_rank);
    return {0, rank + static_cast<int>(s.rope_dim), 0, rank};
  }
  const int group = head / static_cast<int>(s.num_heads / s.num_kv_heads);
  const int nope = static_cast<int>(s.nope_dim);
  const int value = static_cast<int>(s.v_head_dim);
  return {group * nope, nope, static_cast<int>(s.num_kv_heads) * nope + group * value, value};
}

// query[0:key_width] = [W_UK^T q_nope | q_side], or q itself where keys are not up-projected.
template <typename T>
__device__ void raise_query(const Attend& p, const T* q, int head, std::int64_t position,
                            float* query) {
  const int nope = static_cast<int>(p.shape.nope_dim);
  const int rope = static_cast<int>(p.shape.rope_dim);
  const bool projects = p.shape.kind == MlaKind::kLatent;
  const int width = projects ? static_cast<int>(p.shape.kv_rank) : nope;
  const std::int64_t first = head * (p.shape.nope_dim + p.shape.v_head_dim);
  for (int c = threadIdx.x; c < width; c += kThreads) {
    float sum = 0;
    if (projects) {
      for (int r = 0; r < nope; ++r) sum += to_f32(q[r]) * weight_at(p.kv_b, first + r, c);
    } else {
      sum = to_f32(q[c]);
    }
    query[c] = sum;
  }
  for (int i = threadIdx.x; i < rope; i += kThreads) {
    if (p.theta == 0) {
      query[width + i] = to_f32(q[nope + i]);
    } else if (i % 2 == 0) {
      const float2 pair = {to_f32(q[nope + i]), to_f32(q[nope + i + 1])};
      const float2 turned = rotate_pair(pair, i, rope, position, p.theta);
      query[width + i] = round_as<T>(turned.x);
      query[width + i + 1] = round_as<T>(turned.y);
    }
  }
}

// Pages of values as they are, [kBlockTokens, cache_width] of T.
template <typename T>
struct PlainPages {
  const T* rows;
  std::int64_t width;
  __device__ PlainPages(const Attend& p, std::int64_t page)
      : rows(static_cast<const T*>(p.cache) + page * kPage * p.cache_width), width(p.cache_width) {}
  __device__ float at(int token, int c) const { return to_f32(rows[token * width + c]); }
};

struct Fp8Pages {
  LatentPage layout;
  const unsigned char* page;
  __device__ Fp8Pages(const Attend& p, std::int64_t index)
      : layout(p.shape),
        page(static_cast<const unsigned char*>(p.cache) + index * layout.bytes()) {}
  __device__ float at(int token, int c) const {
    if (c < layout.rank) {
      return e4m3_value(page[layout.codes_at(token) + c]) *
             scale_value(page[layout.scale_at(token)]);
    }
    const auto* side = reinterpret_cast<const bf16*>(page + layout.side_at(token));
    return to_f32(side[c - layout.rank]);
  }
};

template <typename Pages>
__device__ float dot(const Pages& page, int token, int first, const float* query, int width) {
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x % 32); d < width; d += 32) {
    sum += page.at(token, first + d) * query[d];
  }
  return warp_sum(sum);
}

// context[0:value_width] = softmax(scores) times the values, page by page.
template <typename Pages>
__device__ void attend_pages(const Attend& p, const HeadColumns& at, const std::int32_t* pages,
                             std::int64_t length, const float* query, float* context) {
  __shared__ float scores[kPage];
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int c = threadIdx.x; c < at.value_width; c += kThreads) context[c] = 0;
  float largest = -INFINITY, sum = 0;
  for (std::int64_t first = 0; first < length; first += kPage) {
    const Pages page(p, pages[first / kPage]);
    const int count = static_cast<int>(length - first < kPage ? length - first : kPage);
    for (int j = warp; j < count; j += kWarps) {
      const float score = dot(page, j, at.keys, query, at.key_width) * p.scale;
      if (threadIdx.x % 32 == 0) scores[j] = score;
    }
    __syncthreads();
    float page_largest = largest;
    for (int j = 0; j < count; ++j) page_largest = fmaxf(page_largest, scores[j]);
    const float shrink = expf(largest - page_largest);
    largest = page_largest;
    float page_sum = 0;
    for (int j = 0; j < count; ++j) page_sum += expf(scores[j] - largest);
    sum = sum * shrink + page_sum;
    for (int c = threadIdx.x; c < at.value_width; c += kThreads) {
      float value = 0;
      for (int j = 0; j < count; ++j) {
        value += expf(scores[j] - largest) * page.at(j, at.values + c);
      }
      context[c] = context[c] * shrink + value;
    }
    __syncthreads();
  }
  for (int c = threadIdx.x; c < at.value_width; c += kThreads) context[c] /= sum;
}

template <typename T, typename Pages>
__global__ void __launch_bounds__(kThreads) attend_plain_kernel(Attend p) {
  extern __shared__ float shared[];
  const std::int64_t row = blockIdx.x / p.shape.num_heads;
  const int head = static_cast<int>(blockIdx.x % p.shape.num_heads);
  const DeviceSequence sequence = p.batch.sequences[p.batch.row_sequence[row]];
  if (sequence.is_generated != p.is_generated) return;
  const std::int64_t position = sequence.start_pos + row - sequence.first_row;
  const HeadColumns at = columns_of(p.shape, head);
  float* query = shared;
  float* context = shared + at.key_width;
  const T* q = static_cast<const T*>(p.q) + (row * p.shape.num_heads + head) * p.qk_dim;
  raise_query(p, q, head, position, query);
  __syncthreads();
  attend_pages<Pages>(p, at, p.batch.pages + sequence.first_page, position + 1, query, context);
  __syncthreads();
  const int values = static_cast<int>(p.shape.v_head_dim);
  const std::int64_t out_at = (row * p.shape.num_heads + head) * values;
  const std::int64_t first = p.shape.kind == MlaKind::kLatent
                                 ? head * (p.shape.nope_dim + values) + p.shape.nope_dim
                                 : static_cast<std::int64_t>(head) * values;
  for (int d = static_cast<int>(threadIdx.x / 32); d < values; d += kWarps) {
    float sum = 0;
    if (p.shape.kind == MlaKind::kGqa) {
      sum = context[d];
    } else {
      for (int c = static_cast<int>(threadIdx.x % 32); c < at.value_width; c += 32) {
        sum += weight_at(p.kv_b, first + d, c) * context[c];
      }
      sum = warp_sum(sum);
    }
    if (threadIdx.x % 32 != 0) continue;
    float value = round_as<T>(sum);
    if (p.gate != nullptr) {
      const float gate = to_f32(static_cast<const T*>(p.gate)[out_at + d]);
      value *= round_as<T>(sigmoid(gate));
    }
    static_cast<T*>(p.out)[out_at + d] = from_f32<T>(value);
  }
}

}  // namespace

void mla_attend_plain(Context& context, const MlaArgs& args, Origin origin) {
  const MlaShape& shape = args.shape;
  Attend p{};
  p.batch = context.stage.batch(args.batch);
  p.shape = shape;
  p.qk_dim = shape.qk_dim();
  p.cache_width = shape.cache_width();
  p.q = args.q.data;
  p.gate = args.gate.data;
  p.cache = args.cache.data;
  p.out = args.out.data;
  p.kv_b = args.kv_b;
  p.theta = args.rope_theta.value_or(0.0f);
  p.scale = 1.0f / std::sqrt(static_cast<float>(shape.qk_dim()));
  p.is_generated = origin == Origin::kGenerated ? 1 : 0;
  const bool grouped = shape.kind == MlaKind::kGqa;
  const std::int64_t floats =
      grouped ? shape.nope_dim + shape.v_head_dim : 2 * shape.kv_rank + shape.rope_dim;
  constexpr std::int64_t kMostFloats = 24000;  // of 99 KB
  if (floats > kMostFloats) unsupported("mla", "heads or a latent of more than 12000 values");
  const Launch how{"mla: plain attention",
                   static_cast<unsigned>(p.batch.num_rows * shape.num_heads), kThreads,
                   static_cast<std::size_t>(floats) * sizeof(float), context.stream};
  const bool bf16_rows = context.activation == DType::kBf16;
  if (args.cache.dtype == DType::kE4m3) {
    launch(how,
           bf16_rows ? attend_plain_kernel<bf16, Fp8Pages> : attend_plain_kernel<float, Fp8Pages>,
           p);
  } else {
    launch(how,
           bf16_rows ? attend_plain_kernel<bf16, PlainPages<bf16>>
                     : attend_plain_kernel<float, PlainPages<float>>,
           p);
  }
}

}  // namespace baltoro::cuda
