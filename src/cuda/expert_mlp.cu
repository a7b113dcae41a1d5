// The routed experts: every (row, slot) pair has a hidden row, every output element sums its slots
// in order. The kernels here serve every format, size and alignment.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device/glu.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/weight_row.cuh"
#include "cuda/expert_grouped.h"
#include "cuda/expert_table.h"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"
#include "ops/expert_mlp.h"

namespace baltoro::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
// Rows are taken in passes whose intermediate results stay below this.
constexpr std::int64_t kPassBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxGrid = 65535;

// Format and shape of every expert's matrices.
struct ExpertForm {
  WeightView w1, w3, w2;
};

struct ExpertRows {
  const ExpertEntry* table;
  ExpertForm form;
  const std::int32_t* ids;  // [pairs]
  std::int64_t pairs;
  int top_k;
};

__device__ __forceinline__ WeightView at(WeightView form, const void* data,
                                         const std::uint8_t* scales) {
  form.data = data;
  form.scales = scales;
  return form;
}

// The product of one weight row with x, in every lane.
template <typename T>
__device__ float dot_row(const WeightView& weight, std::int64_t row, const T* x) {
  float sum = 0;
  for (std::int64_t col = threadIdx.x % 32; col < weight.cols; col += 32) {
    sum = fmaf(weight_at(weight, row, col), to_f32(x[col]), sum);
  }
  return warp_sum(sum);
}

// hidden [pairs, F]: one warp an element.
template <typename T>
__global__ void gate_up(ExpertRows rows, Activation activation, const T* z, T* hidden) {
  const std::int64_t f = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (f >= rows.form.w1.rows) return;
  for (std::int64_t pair = blockIdx.y; pair < rows.pairs; pair += gridDim.y) {
    const ExpertEntry& e = rows.table[rows.ids[pair]];
    const T* x = z + pair / rows.top_k * rows.form.w1.cols;
    const float gate = dot_row(at(rows.form.w1, e.w1, e.w1_scales), f, x);
    const float up = dot_row(at(rows.form.w3, e.w3, e.w3_scales), f, x);
    if (threadIdx.x % 32 != 0) continue;
    hidden[pair * rows.form.w1.rows + f] = from_f32<T>(glu<T>(activation, gate, up));
  }
}

// out [M, Z]: one warp an element, over the slots of its row.
template <typename T>
__global__ void down_sum(ExpertRows rows, const float* weights, const T* hidden, T* out) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (n >= rows.form.w2.rows) return;
  for (std::int64_t row = blockIdx.y; row < rows.pairs / rows.top_k; row += gridDim.y) {
    float sum = 0;
    for (std::int64_t pair = row * rows.top_k; pair < (row + 1) * rows.top_k; ++pair) {
      const ExpertEntry& e = rows.table[rows.ids[pair]];
      const T* x = hidden + pair * rows.form.w2.cols;
      const float down = dot_row(at(rows.form.w2, e.w2, e.w2_scales), n, x);
      sum += weights[pair] * round_as<T>(down);
    }
    if (threadIdx.x % 32 == 0) out[row * rows.form.w2.rows + n] = from_f32<T>(sum);
  }
}

template <typename T>
void run(Context& context, const ExpertMlpArgs& args, const ExpertEntry* table,
         const ExpertForm& form) {
  const std::int64_t width = form.w2.rows, inner = form.w1.rows;
  const auto row_bytes = static_cast<std::int64_t>(sizeof(T)) * inner * args.top_k;
  const std::int64_t pass = std::clamp(kPassBytes / row_bytes, std::int64_t{1}, args.z.rows());
  const bool fp8_rows = args.expert_activations == ExpertActivations::kFp8;
  context.scratch.begin(Scratch::bytes_of<T>(pass * args.top_k * inner) +
                        Scratch::bytes_of<T>(fp8_rows ? pass * width : 0));
  T* hidden = context.scratch.take<T>(pass * args.top_k * inner);
  T* rounded = fp8_rows ? context.scratch.take<T>(pass * width) : nullptr;
  for (std::int64_t first = 0; first < args.z.rows(); first += pass) {
    const std::int64_t count = std::min(pass, args.z.rows() - first);
    const ExpertRows rows{table, form, args.ids + first * args.top_k, count * args.top_k,
                          args.top_k};
    const T* z = static_cast<const T*>(args.z.data) + first * width;
    if (fp8_rows) {
      round_fp8_rows(context, whole_rows(count, width), z, rounded);
      z = rounded;
    }
    const dim3 hidden_grid(ceil_div(inner, kWarps),
                           static_cast<unsigned>(std::min(rows.pairs, kMaxGrid)));
    launch({"expert_mlp: gate and up", hidden_grid, kThreads, 0, context.stream}, gate_up<T>, rows,
           args.activation, z, hidden);
    if (fp8_rows) round_fp8_rows(context, whole_rows(rows.pairs, inner), hidden, hidden);
    const dim3 out_grid(ceil_div(width, kWarps), static_cast<unsigned>(std::min(count, kMaxGrid)));
    launch({"expert_mlp: down", out_grid, kThreads, 0, context.stream}, down_sum<T>, rows,
           args.weights + first * args.top_k, hidden,
           static_cast<T*>(args.out.data) + first * width);
  }
}

// The first expert that is present stands for all.
ExpertForm form_of(const ExpertMlpArgs& args) {
  for (const ExpertWeights& expert : args.experts) {
    if (expert.w1) return {expert.w1, expert.w3, expert.w2};
  }
  unsupported("expert_mlp", "no expert is present");
}

}  // namespace

void expert_mlp(Context& context, const ExpertMlpArgs& args) {
  if (args.z.rows() == 0) return;
  if (args.feed != nullptr) unsupported("expert_mlp", "experts must be resident on the GPU");
  Buffer own;
  const void* table = args.table;
  if (table == nullptr) {
    own = make_expert_table(args.experts, context.stream);
    table = own.data();
  }
  const auto* entries = static_cast<const ExpertEntry*>(table);
  if (!grouped_experts_why_not(context, args)) {
    grouped_experts(context, args, entries);
  } else if (context.activation == DType::kBf16) {
    run<bf16>(context, args, entries, form_of(args));
  } else {
    run<float>(context, args, entries, form_of(args));
  }
  // The table of this call alone is released when the kernels have read it.
  if (own.bytes() > 0) check(cudaStreamSynchronize(context.stream), "expert_mlp");
}

}  // namespace baltoro::cuda
