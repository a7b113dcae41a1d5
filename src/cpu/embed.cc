#include "ops/embed.h"

#include "cpu/context.h"
#include "cpu/product.h"

namespace baltoro::cpu {

void embed(Context& context, const EmbedArgs& args) {
  const Matrix table(args.table);
  float* out = args.out.f32();
  const auto body = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = args.ids[static_cast<std::size_t>(r)];
      float* row = out + r * table.cols;
      context.leaf.decode_row(table.data + id * table.row_bytes, nullptr, table.format, table.cols,
                              row);
      // A table stored wider than bf16 is still a bf16 activation in that mode.
      if (context.round && table.format != LeafFormat::kBf16) {
        context.leaf.round_bf16(row, table.cols);
      }
    }
  };
  context.pool.parallel_for(args.out.rows(), 4, body);
}

}  // namespace baltoro::cpu
