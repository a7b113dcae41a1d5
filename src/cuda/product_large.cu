// Products of many rows by cuBLASLt, with what it does not do in kernels after it.
#include "cuda/cublaslt.h"
#include "cuda/device/glu.cuh"
#include "cuda/launch.cuh"
#include "cuda/product.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // values a thread

struct alignas(sizeof(bf16) * kVector) Values {
  bf16 at[kVector];
};

struct Value {
  bf16 at[1];
};

// out = act(y, other), or other + y; `other` may be out.
template <Finish kFinish, typename V>
__global__ void __launch_bounds__(kThreads)
    finish_values(Activation activation, const V* y, const V* other, V* out, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const V a = y[i], b = other[i];
  V values;
#pragma unroll
  for (int j = 0; j < static_cast<int>(sizeof(V) / sizeof(bf16)); ++j) {
    const float first = to_f32(a.at[j]), second = to_f32(b.at[j]);
    values.at[j] = from_f32<bf16>(kFinish == Finish::kGlu ? glu<bf16>(activation, first, second)
                                                          : second + first);
  }
  out[i] = values;
}

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(Values) == 0; }

template <Finish kFinish, typename V>
void launch_finish(Context& context, const Product& p, const void* y, const void* other) {
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(V) / sizeof(bf16));
  const std::int64_t count = p.rows * p.outputs[0].weight.rows / kWidth;
  const Launch how{.name = "finish of a product",
                   .grid = dim3(ceil_div(count, kThreads)),
                   .block = dim3(kThreads),
                   .stream = context.stream};
  launch(how, finish_values<kFinish, V>, p.activation, static_cast<const V*>(y),
         static_cast<const V*>(other), static_cast<V*>(p.outputs[0].out), count);
}

template <Finish kFinish>
void finish_product(Context& context, const Product& p, const void* y, const void* other) {
  const bool whole = p.rows * p.outputs[0].weight.rows % kVector == 0;
  if (whole && is_aligned(other) && is_aligned(p.outputs[0].out)) {
    launch_finish<kFinish, Values>(context, p, y, other);
  } else {
    launch_finish<kFinish, Value>(context, p, y, other);
  }
}

Gemm gemm_of(const Product& p, int i) {
  return {.x = p.x,
          .w = p.outputs[i].weight.data,
          .out = p.outputs[i].out,
          .m = p.rows,
          .n = p.outputs[i].weight.rows,
          .k = p.cols,
          .out_dtype = p.finish == Finish::kLogits ? DType::kF32 : DType::kBf16};
}

// Sums that are kept for a step of their own.
int num_kept(const Product& p) {
  return p.finish == Finish::kGlu ? 2 : p.finish == Finish::kAdd ? 1 : 0;
}

}  // namespace

bool multiply_large_serves(Context& context, const Product& product) {
  for (int i = 0; i < product.num_outputs; ++i) {
    if (!context.blas.serves(gemm_of(product, i))) return false;
  }
  return true;
}

std::size_t multiply_large_scratch(const Product& product) {
  const std::int64_t values = product.rows * product.outputs[0].weight.rows;
  return Scratch::bytes_of<std::byte>(CublasLt::kWorkspaceBytes) +
         static_cast<std::size_t>(num_kept(product)) * Scratch::bytes_of<bf16>(values);
}

void multiply_large(Context& context, const Product& product) {
  void* workspace = context.scratch.take<std::byte>(CublasLt::kWorkspaceBytes);
  const std::int64_t values = product.rows * product.outputs[0].weight.rows;
  void* kept[2] = {};
  for (int i = 0; i < num_kept(product); ++i) kept[i] = context.scratch.take<bf16>(values);
  for (int i = 0; i < product.num_outputs; ++i) {
    Gemm gemm = gemm_of(product, i);
    if (num_kept(product) > 0) gemm.out = kept[i];
    context.blas.multiply(gemm, workspace, context.stream);
  }
  if (product.finish == Finish::kGlu) {
    finish_product<Finish::kGlu>(context, product, kept[0], kept[1]);
  } else if (product.finish == Finish::kAdd) {
    finish_product<Finish::kAdd>(context, product, kept[0], product.add);
  }
}

}  // namespace baltoro::cuda
