// What precedes attention: latent norm, rotation of the side key and cache write, one block per new
// row; and kv_b where vectors can be read.
#include "cuda/device/activation.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/rotate.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_parts.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 128;

struct CacheWrite {
  DeviceBatch batch;
  const void* kv;     // [M, first_width]
  const void* v;      // [M, second_width], copied behind it; kGqa
  const float* norm;  // null: copied as it is; kGqa
  void* cache;        // [pages, kBlockTokens, first_width + second_width]
  int first_width;
  int second_width;
  int rank;  // values under the norm; what follows is the side key
  float eps;
  float theta;       // 0: not rotated
  int is_generated;  // the origin that is served
};

template <typename T>
__global__ void __launch_bounds__(kThreads) write_cache_kernel(CacheWrite p) {
  __shared__ float slots[32];
  start_next_kernel();
  wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  const DeviceSequence sequence = p.batch.sequences[p.batch.row_sequence[row]];
  if (sequence.is_generated != p.is_generated) return;
  const std::int64_t position = sequence.start_pos + row - sequence.first_row;
  const std::int64_t page = p.batch.pages[sequence.first_page + position / kBlockTokens];
  const T* in = static_cast<const T*>(p.kv) + row * p.first_width;
  T* out = static_cast<T*>(p.cache) +
           (page * kBlockTokens + position % kBlockTokens) * (p.first_width + p.second_width);
  if (p.norm == nullptr) {
    const T* second = static_cast<const T*>(p.v) + row * p.second_width;
    for (int i = threadIdx.x; i < p.first_width; i += kThreads) out[i] = in[i];
    for (int i = threadIdx.x; i < p.second_width; i += kThreads) {
      out[p.first_width + i] = second[i];
    }
    return;
  }
  float squares = 0;
  for (int i = threadIdx.x; i < p.rank; i += kThreads) squares += to_f32(in[i]) * to_f32(in[i]);
  squares = block_sum(squares, slots);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(p.rank) + p.eps);
  for (int i = threadIdx.x; i < p.rank; i += kThreads) {
    out[i] = from_f32<T>(p.norm[i] * round_as<T>(to_f32(in[i]) * scale));
  }
  const int side = p.first_width - p.rank;
  for (int i = threadIdx.x; i < side; i += kThreads) {
    if (p.theta == 0) {
      out[p.rank + i] = in[p.rank + i];
    } else if (i % 2 == 0) {
      const float2 pair = {to_f32(in[p.rank + i]), to_f32(in[p.rank + i + 1])};
      const float2 turned = rotate_pair(pair, i, side, position, p.theta);
      out[p.rank + i] = from_f32<T>(turned.x);
      out[p.rank + i + 1] = from_f32<T>(turned.y);
    }
  }
}

}  // namespace

void mla_write_cache(Context& context, const MlaArgs& args, Origin origin) {
  const MlaShape& shape = args.shape;
  CacheWrite p{};
  p.batch = context.stage.batch(args.batch);
  p.kv = args.kv.data;
  p.v = args.v.data;
  p.norm = args.kv_norm;
  p.cache = args.cache.data;
  p.first_width = static_cast<int>(args.kv.cols());
  p.second_width = args.v ? static_cast<int>(args.v.cols()) : 0;
  p.rank = static_cast<int>(shape.kv_rank);
  p.eps = args.kv_norm_eps;
  p.theta = args.rope_theta.value_or(0.0f);
  p.is_generated = origin == Origin::kGenerated ? 1 : 0;
  const Launch how{.name = "mla: write the cache",
                   .grid = dim3(static_cast<unsigned>(p.batch.num_rows)),
                   .block = dim3(kThreads),
                   .stream = context.stream,
                   .overlap = true};
  const bool bf16_rows = context.activation == DType::kBf16;
  launch(how, bf16_rows ? write_cache_kernel<bf16> : write_cache_kernel<float>, p);
}

std::size_t aligned_kv_b_bytes(const MlaArgs& args) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(args.kv_b.data) % 16 == 0;
  return aligned ? 0 : Scratch::bytes_of<std::byte>(args.kv_b.bytes());
}

WeightView aligned_kv_b(Context& context, const MlaArgs& args) {
  WeightView view = args.kv_b;
  if (aligned_kv_b_bytes(args) == 0) return view;
  view.data = context.scratch.take<std::byte>(view.bytes());
  check(cudaMemcpyAsync(const_cast<void*>(view.data), args.kv_b.data,
                        static_cast<std::size_t>(view.bytes()), cudaMemcpyDeviceToDevice,
                        context.stream),
        "copy kv_b to where vectors can be read");
  return view;
}

}  // namespace baltoro::cuda
