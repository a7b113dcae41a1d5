#include <algorithm>
#include <cmath>

#include "cuda/device/activation.cuh"
#include "cuda/device/overlap.cuh"
#include "cuda/device/word.cuh"
#include "cuda/expert_half_rows.h"
#include "cuda/fp8_rows.h"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr std::int64_t kPassRows = 8192;
// Widths are multiples of these.
constexpr std::int64_t kMxfp4Cols = 256, kBf16Cols = 64;
// Rows an expert from which the next way is faster (docs/cuda/experts.md).
constexpr std::int64_t kMmaExpected = 2, kWideExpected = 32;
// Where the ring serves, up to here, and its larger groups.
constexpr std::int64_t kRingExpected = 40, kRing16Expected = 6, kRing24Expected = 12;

__device__ __forceinline__ float2 unpack(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

__device__ __forceinline__ std::uint32_t pack(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

// out [M, Z] = the slots' down rows, weighted, summed in slot order: eight elements a thread.
__global__ void sum_slots(const uint4* down, const float* weights, int top_k, int vectors,
                          uint4* out) {
  start_next_kernel();
  wait_for_previous_kernel();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const std::int64_t row = blockIdx.y;
  float sum[8] = {};
  for (int a = 0; a < top_k; ++a) {
    const std::int64_t pair = row * top_k + a;
    const uint4 v = down[pair * vectors + i];
    const float weight = weights[pair];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 two = unpack(word_of(v, j));
      sum[2 * j] += weight * two.x;
      sum[2 * j + 1] += weight * two.y;
    }
  }
  out[row * vectors + i] = {pack(sum[0], sum[1]), pack(sum[2], sum[3]), pack(sum[4], sum[5]),
                            pack(sum[6], sum[7])};
}

enum class Way : std::uint8_t { kHalf, kRing, kMma, kWide, kBf16 };

struct Plan {
  Way way;
  int group_rows;
};

const ExpertWeights& first_present(const ExpertMlpArgs& args) {
  return *std::find_if(args.experts.begin(), args.experts.end(),
                       [](const ExpertWeights& e) { return static_cast<bool>(e.w1); });
}

// A group that holds the pairs of most experts: the count of a random one is expected + a few roots.
int wide_group_rows(std::int64_t expected) {
  const double likely = static_cast<double>(expected) + 1.2 * std::sqrt(expected);
  const int rows = 32 * static_cast<int>(std::ceil(likely / 32));
  return std::clamp(rows, 32, kWideRows);
}

// From the rows that an expert expects. Larger groups read weights once for more rows, and have
// fewer warps at work.
Plan choose(const Context& context, const ExpertMlpArgs& args) {
  const std::int64_t rows = args.z.rows();
  const std::int64_t expected = rows * args.top_k / static_cast<std::int64_t>(args.experts.size());
  if (first_present(args).w1.format == WeightFormat::kBf16) {
    return {Way::kBf16, expected < 4 ? 8 : expected < 8 ? 16 : 32};
  }
  const bool half = args.activation.kind == ActivationKind::kSitu;
  if (context.deterministic) return {half ? Way::kHalf : Way::kMma, half ? kHalfRows : kMmaRows};
  const ExpertWeights& form = first_present(args);
  if (half && expected < kRingExpected && ring_serves(context, form.w1.cols, form.w1.rows)) {
    return {Way::kRing, expected < kRing16Expected   ? 8
                        : expected < kRing24Expected ? 16
                                                     : kRingRows};
  }
  if (context.device.is_hopper() && expected >= kWideExpected) {
    return {Way::kWide, wide_group_rows(expected)};
  }
  if (half && expected < kMmaExpected) return {Way::kHalf, rows <= 8 ? 2 : 4};
  return {Way::kMma, rows <= 8 || expected < 2 ? 8 : expected < 8 ? 16 : 32};
}

bool aligned(const void* pointer, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

bool serves(const WeightView& w) {
  if (!aligned(w.data, 16)) return false;
  if (w.format == WeightFormat::kBf16) return w.cols % kBf16Cols == 0;
  return w.format == WeightFormat::kMxfp4 && w.cols % kMxfp4Cols == 0 && aligned(w.scales, 16);
}

// What the products take of the scratch memory.
std::size_t bytes_of(Way way, const GroupedExperts& experts) {
  switch (way) {
    case Way::kHalf:
    case Way::kRing:
      return half_rows_bytes(experts);
    case Way::kMma:
      return mma_experts_bytes(experts);
    case Way::kBf16:
      return bf16_experts_bytes(experts);
    case Way::kWide:
      return wide_experts_bytes(experts);
  }
  return 0;
}

void run_pass(Context& context, const ExpertMlpArgs& args, const ExpertEntry* table) {
  const Plan plan = choose(context, args);
  const std::int64_t rows = args.z.rows(), width = args.z.cols();
  const auto num_experts = static_cast<std::int64_t>(args.experts.size());
  GroupedExperts experts{
      table,
      static_cast<int>(num_experts),
      plan_groups(rows * args.top_k, num_experts, plan.group_rows, plan.way == Way::kWide ? 8 : 1),
      args.z.data,
      rows,
      args.top_k,
      width,
      first_present(args).w1.rows,
      args.activation,
      args.expert_activations == ExpertActivations::kFp8,
      nullptr,
      {args.weights, args.out.data}};
  ExpertGroups& groups = experts.groups;
  context.scratch.begin(bytes_of(plan.way, experts) + group_bytes(groups) +
                        Scratch::bytes_of<bf16>(groups.num_pairs * width) +
                        Scratch::bytes_of<bf16>(experts.fp8_rows ? rows * width : 0));
  if (experts.fp8_rows) {
    auto* z = context.scratch.take<bf16>(rows * width);
    round_fp8_rows(context, whole_rows(rows, width), static_cast<const bf16*>(experts.z), z);
    experts.z = z;
  }
  take_groups(context.scratch, groups);
  group_pairs(context, groups, args.ids, num_experts, rows);
  const bool at_once =
      plan.way == Way::kBf16 && rows == 1 && args.top_k <= kMostRowSlots && !context.deterministic;
  if (!at_once) experts.down = context.scratch.take<bf16>(groups.num_pairs * width);
  switch (plan.way) {
    case Way::kHalf:
      half_experts(context, experts);
      break;
    case Way::kRing:
      ring_experts(context, experts);
      break;
    case Way::kMma:
      mma_experts(context, experts);
      break;
    case Way::kBf16:
      bf16_experts(context, experts);
      break;
    case Way::kWide:
      wide_experts(context, experts);
      break;
  }
  if (at_once) return;
  constexpr int kThreads = 128;
  const std::int64_t vectors = width / 8;
  launch({.name = "expert_mlp: sum",
          .grid = dim3(ceil_div(vectors, kThreads), static_cast<unsigned>(rows)),
          .block = dim3(kThreads),
          .stream = context.stream,
          .overlap = true},
         sum_slots, static_cast<const uint4*>(experts.down), args.weights, args.top_k,
         static_cast<int>(vectors), static_cast<uint4*>(args.out.data));
}

}  // namespace

std::optional<std::string> grouped_experts_why_not(const Context& context,
                                                   const ExpertMlpArgs& args) {
  if (context.activation != DType::kBf16) return "activations are not bf16";
  if (!aligned(args.z.data, 16) || !aligned(args.out.data, 16)) return "rows are not aligned";
  if (static_cast<std::int64_t>(args.experts.size()) > kMaxGroupedExperts) return "many experts";
  for (const ExpertWeights& e : args.experts) {
    if (!e.w1) continue;
    if (e.w1.format != e.w2.format || e.w1.format != first_present(args).w1.format) {
      return "formats are mixed";
    }
    if (!serves(e.w1) || !serves(e.w3) || !serves(e.w2)) {
      return "weights are not MXFP4 or BF16 with a multiple of 256 or 64 columns at aligned "
             "addresses";
    }
  }
  return std::nullopt;
}

void grouped_experts(Context& context, const ExpertMlpArgs& args, const ExpertEntry* table) {
  for (std::int64_t first = 0; first < args.z.rows(); first += kPassRows) {
    const std::int64_t count = std::min(kPassRows, args.z.rows() - first);
    ExpertMlpArgs part = args;
    part.z = {static_cast<const bf16*>(args.z.data) + first * args.z.cols(),
              args.z.dtype,
              {count, args.z.cols()}};
    part.out = {static_cast<bf16*>(args.out.data) + first * args.out.cols(),
                args.out.dtype,
                {count, args.out.cols()}};
    part.ids = args.ids + first * args.top_k;
    part.weights = args.weights + first * args.top_k;
    run_pass(context, part, table);
  }
}

}  // namespace baltoro::cuda
