// Residual add, Attention-Residuals mix and RMSNorm: one block per row.
#include "cuda/device/activation.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/launch.cuh"
#include "cuda/mix_norm.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 512;
// Adds delta, stores the sum and tags the row where it is not finite.
template <typename T>
__device__ void update_prefix(const MixNorm& p, std::int64_t row) {
  T* prefix = static_cast<T*>(p.prefix) + row * p.hidden;
  int bad = 0;
  for (int d = threadIdx.x; d < p.hidden; d += kThreads) {
    float value = to_f32(prefix[d]);
    if (p.delta != nullptr) {
      value = round_as<T>(value + to_f32(static_cast<const T*>(p.delta)[row * p.hidden + d]));
      prefix[d] = from_f32<T>(value);
    }
    bad |= isfinite(value) ? 0 : 1;
  }
  bad = __syncthreads_or(bad);
  if (bad != 0 && threadIdx.x == 0 && p.first_bad != nullptr && p.first_bad[row] == -1) {
    p.first_bad[row] = p.bad_tag;
  }
}

// rsqrt(mean(v^2) + eps) * sum v res_norm res_proj, in every thread.
template <typename T>
__device__ float score(const MixNorm& p, const T* source, float* slots) {
  float squares = 0, product = 0;
  for (int d = threadIdx.x; d < p.hidden; d += kThreads) {
    const float value = to_f32(source[d]);
    squares += value * value;
    product += value * (p.res_norm[d] * p.res_proj[d]);
  }
  squares = block_sum(squares, slots);
  product = block_sum(product, slots);
  return product / sqrtf(squares / static_cast<float>(p.hidden) + p.mix_eps);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) mix_norm_kernel(const __grid_constant__ MixNorm p) {
  __shared__ float slots[32];
  __shared__ float weights[kMaxSources];
  const std::int64_t row = blockIdx.x;
  const std::int64_t at = row * p.hidden;
  update_prefix<T>(p, row);
  float largest = -INFINITY;
  if (p.num_sources > 1) {
    for (int i = 0; i < p.num_sources; ++i) {
      const float value = score(p, static_cast<const T*>(p.source[i]) + at, slots);
      if (threadIdx.x == 0) weights[i] = value;
      largest = fmaxf(largest, value);
    }
    __syncthreads();
  }
  float total = 0;
  for (int i = 0; p.num_sources > 1 && i < p.num_sources; ++i) total += expf(weights[i] - largest);
  const auto mixed = [&](int d) {
    if (p.num_sources == 1) return to_f32(static_cast<const T*>(p.prefix)[at + d]);
    float sum = 0;
    for (int i = 0; i < p.num_sources; ++i) {
      sum +=
          expf(weights[i] - largest) / total * to_f32(static_cast<const T*>(p.source[i])[at + d]);
    }
    return round_as<T>(sum);
  };
  float squares = 0;
  for (int d = threadIdx.x; d < p.hidden; d += kThreads) {
    const float h = mixed(d);
    squares += h * h;
  }
  squares = block_sum(squares, slots);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(p.hidden) + p.norm_eps);
  for (int d = threadIdx.x; d < p.hidden; d += kThreads) {
    static_cast<T*>(p.out)[at + d] = from_f32<T>(p.norm[d] * round_as<T>(mixed(d) * scale));
  }
}

}  // namespace

void mix_norm(Context& context, const MixNormArgs& args) {
  if (args.bank.size() >= kMaxSources) unsupported("mix_norm", "more than 31 banked sources");
  MixNorm p{};
  for (const ConstTensorView& source : args.bank) p.source[p.num_sources++] = source.data;
  p.source[p.num_sources++] = args.prefix.data;
  p.prefix = args.prefix.data;
  p.delta = args.delta.data;
  p.res_norm = args.res_norm;
  p.res_proj = args.res_proj;
  p.norm = args.norm;
  p.out = args.out.data;
  p.first_bad = args.first_bad;
  p.bad_tag = args.bad_tag;
  p.mix_eps = args.mix_eps;
  p.norm_eps = args.norm_eps;
  p.hidden = static_cast<int>(args.prefix.cols());
  if (sm90::serves_mix_norm(context, p)) return sm90::mix_norm(context, p, args.prefix.rows());
  const Launch how{"mix_norm", static_cast<unsigned>(args.prefix.rows()), kThreads, 0,
                   context.stream};
  launch(how, context.activation == DType::kBf16 ? mix_norm_kernel<bf16> : mix_norm_kernel<float>,
         p);
}

}  // namespace baltoro::cuda
