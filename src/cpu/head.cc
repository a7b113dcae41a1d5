#include "ops/head.h"

#include "cpu/context.h"
#include "cpu/product.h"

namespace baltoro::cpu {

void head(Context& context, const HeadArgs& args) {
  context.scratch.reserve_workers(ProductWork{});
  const auto rows = static_cast<std::int64_t>(args.rows.size());
  PackedRows packed(rows, args.x.cols());
  packed.meet(context, args.weight.format);
  context.scratch.shared(packed);
  const Rows x =
      packed.pack(context, {args.x.f32(), args.x.cols(), args.rows.data(), rows, context.round});
  const std::int64_t vocab = args.weight.rows;
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const ProductWork work = context.scratch.worker(ProductWork{}, worker);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const Range range = tile_range(tile, vocab);
      const Matrix weight(args.weight.slice_rows(range.begin, range.count));
      multiply(context, weight, x, {args.logits + range.begin, vocab}, work);
    }
  };
  context.pool.parallel_for(num_tiles(vocab), 1, body);
}

}  // namespace baltoro::cpu
