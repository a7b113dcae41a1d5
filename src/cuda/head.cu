#include "cuda/context.h"
#include "cuda/launch.cuh"
#include "cuda/product.h"
#include "ops/head.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void gather_rows(const std::uint8_t* x, const std::int32_t* rows, std::int64_t row_bytes,
                            std::uint8_t* out) {
  const std::int64_t from = rows[blockIdx.x] * row_bytes;
  const std::int64_t to = blockIdx.x * row_bytes;
  for (std::int64_t i = threadIdx.x; i < row_bytes; i += kThreads) out[to + i] = x[from + i];
}

constexpr int kCheckBlocks = 64;  // of a row

// bad [rows] was 0.
__global__ void find_bad(const float* logits, std::int64_t vocab, std::int32_t* bad) {
  const float* row = logits + blockIdx.y * vocab;
  bool found = false;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < vocab;
       i += kCheckBlocks * kThreads) {
    found |= !isfinite(row[i]);
  }
  if (found) bad[blockIdx.y] = 1;
}

bool consecutive(std::span<const std::int32_t> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return false;
  }
  return true;
}

}  // namespace

void head(Context& context, const HeadArgs& args) {
  const auto row_bytes = args.x.cols() * static_cast<std::int64_t>(dtype_bytes(context.activation));
  const auto count = static_cast<std::int64_t>(args.rows.size());
  const auto* x = static_cast<const std::uint8_t*>(args.x.data);
  const std::int64_t gathered_bytes = consecutive(args.rows) ? 0 : count * row_bytes;
  Product product{.x = gathered_bytes > 0 ? nullptr : x + args.rows[0] * row_bytes,
                  .rows = count,
                  .cols = args.x.cols(),
                  .outputs = {{args.weight, args.logits}},
                  .num_outputs = 1,
                  .finish = Finish::kLogits,
                  .add = nullptr,
                  .activation = {}};
  context.scratch.begin(Scratch::bytes_of<std::uint8_t>(gathered_bytes) +
                        multiply_scratch(context, product));
  if (gathered_bytes > 0) {
    auto* gathered = context.scratch.take<std::uint8_t>(gathered_bytes);
    const Launch how{.name = "rows of the head",
                     .grid = dim3(static_cast<unsigned>(count)),
                     .block = dim3(kThreads),
                     .stream = context.stream};
    launch(how, gather_rows, x, context.stage.ints(args.rows), row_bytes, gathered);
    product.x = gathered;
  }
  multiply(context, product);
  if (args.bad == nullptr) return;
  const auto bad_bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
  check(cudaMemsetAsync(args.bad, 0, bad_bytes, context.stream), "clear the marks of the logits");
  const Launch how{.name = "check of the logits",
                   .grid = dim3(kCheckBlocks, static_cast<unsigned>(count)),
                   .block = dim3(kThreads),
                   .stream = context.stream};
  launch(how, find_bad, args.logits, args.weight.rows, args.bad);
}

}  // namespace baltoro::cuda
