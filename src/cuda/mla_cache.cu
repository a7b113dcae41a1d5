// What precedes attention: latent norm, rotation of the side key and cache write, one block per new
// row; and kv_b where vectors can be read.
#include "cuda/device/overlap.cuh"
#include "cuda/launch.cuh"
#include "cuda/mla_cache.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) write_cache_kernel(CacheWrite p) {
  __shared__ float slots[32];
  start_next_kernel();
  wait_for_previous_kernel();
  write_cache_row<T>(p, blockIdx.x, slots);
}

}  // namespace

CacheWrite cache_write(Context& context, const MlaArgs& args, Origin origin) {
  CacheWrite p{};
  p.batch = context.stage.batch(args.batch);
  p.kv = args.kv.data;
  p.v = args.v.data;
  p.norm = args.kv_norm;
  p.cache = args.cache.data;
  if (args.cache.dtype == DType::kE4m3) p.fp8 = LatentPage(args.shape);
  p.first_width = static_cast<int>(args.kv.cols());
  p.second_width = args.v ? static_cast<int>(args.v.cols()) : 0;
  p.rank = static_cast<int>(args.shape.kv_rank);
  p.eps = args.kv_norm_eps;
  p.theta = args.rope_theta.value_or(0.0f);
  p.is_generated = origin == Origin::kGenerated ? 1 : 0;
  return p;
}

void mla_write_cache(Context& context, const MlaArgs& args, Origin origin) {
  const CacheWrite p = cache_write(context, args, origin);
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
