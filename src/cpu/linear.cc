#include "ops/linear.h"

#include "cpu/context.h"
#include "cpu/product.h"

namespace baltoro::cpu {
namespace {

// One tile of outputs for all rows.
void linear_tile(const Context& context, const LinearOutput& output, const Rows& x, Range range,
                 const ProductWork& work) {
  const std::int64_t stride = output.weight.rows;
  const Output out{output.out.f32() + range.begin, stride};
  const Matrix weight(output.weight.slice_rows(range.begin, range.count));
  multiply(context, weight, x, out, work);
  if (!context.round) return;
  for (std::int64_t m = 0; m < x.count; ++m) {
    context.leaf.round_bf16(out.data + m * stride, range.count);
  }
}

}  // namespace

void linear(Context& context, const LinearArgs& args) {
  context.scratch.reserve_workers(ProductWork{});
  std::int64_t first_tile[LinearArgs::kMaxOutputs + 1] = {};
  for (int i = 0; i < args.num_outputs; ++i) {
    const std::int64_t rows = args.outputs[static_cast<std::size_t>(i)].weight.rows;
    first_tile[i + 1] = first_tile[i] + num_tiles(rows);
  }
  PackedRows packed(args.x.rows(), args.x.cols());
  for (int i = 0; i < args.num_outputs; ++i) {
    packed.meet(context, args.outputs[static_cast<std::size_t>(i)].weight.format);
  }
  context.scratch.shared(packed);
  const Rows x =
      packed.pack(context, {args.x.f32(), args.x.cols(), nullptr, args.x.rows(), context.round});
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const ProductWork work = context.scratch.worker(ProductWork{}, worker);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      int i = 0;
      while (tile >= first_tile[i + 1]) ++i;
      const LinearOutput& output = args.outputs[static_cast<std::size_t>(i)];
      const Range range = tile_range(tile - first_tile[i], output.weight.rows);
      linear_tile(context, output, x, range, work);
    }
  };
  context.pool.parallel_for(first_tile[args.num_outputs], 1, body);
}

}  // namespace baltoro::cpu
