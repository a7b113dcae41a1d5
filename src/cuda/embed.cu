#include "cuda/context.h"
#include "cuda/device/weight_row.cuh"
#include "cuda/launch.cuh"
#include "ops/embed.h"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void embed_rows(WeightView table, const std::int32_t* ids, T* out) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t col = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (col < table.cols) out[row * table.cols + col] = from_f32<T>(weight_at(table, ids[row], col));
}

}  // namespace

void embed(Context& context, const EmbedArgs& args) {
  const std::int32_t* ids = context.stage.ints(args.ids);
  const Launch how{
      .name = "embed",
      .grid = dim3(static_cast<unsigned>(args.ids.size()), ceil_div(args.table.cols, kThreads)),
      .block = dim3(kThreads),
      .stream = context.stream};
  if (context.activation == DType::kBf16) {
    launch(how, embed_rows<bf16>, args.table, ids, static_cast<bf16*>(args.out.data));
  } else {
    launch(how, embed_rows<float>, args.table, ids, static_cast<float*>(args.out.data));
  }
}

}  // namespace baltoro::cuda
