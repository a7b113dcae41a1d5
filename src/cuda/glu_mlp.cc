#include "ops/glu_mlp.h"

#include "core/dtype.h"
#include "cuda/context.h"
#include "cuda/product.h"

namespace baltoro::cuda {

void glu_mlp(Context& context, const GluMlpArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t inner_width = args.gate.rows;
  const std::int64_t inner_bytes =
      rows * inner_width * static_cast<std::int64_t>(dtype_bytes(context.activation));
  context.scratch.begin(Scratch::bytes_of<std::byte>(inner_bytes));
  void* inner = context.scratch.take<std::byte>(inner_bytes);
  const Product gated{.x = args.x.data,
                      .rows = rows,
                      .cols = args.x.cols(),
                      .outputs = {{args.gate, inner}, {args.up, inner}},
                      .num_outputs = 2,
                      .finish = Finish::kGlu,
                      .add = nullptr,
                      .activation = args.activation};
  multiply(context, gated);
  const Product down{.x = inner,
                     .rows = rows,
                     .cols = inner_width,
                     .outputs = {{args.down, args.out.data}},
                     .num_outputs = 1,
                     .finish = args.add ? Finish::kAdd : Finish::kStore,
                     .add = args.add.data,
                     .activation = {}};
  multiply(context, down);
}

}  // namespace baltoro::cuda
