#include "ops/glu_mlp.h"

#include "core/dtype.h"
#include "cuda/context.h"
#include "cuda/product.h"

namespace baltoro::cuda {

void glu_mlp(Context& context, const GluMlpArgs& args) {
  const std::int64_t inner_width = args.gate.rows;
  Product gated{.x = args.x.data,
                .rows = args.x.rows(),
                .cols = args.x.cols(),
                .outputs = {{args.gate, nullptr}, {args.up, nullptr}},
                .num_outputs = 2,
                .finish = Finish::kGlu,
                .add = nullptr,
                .activation = args.activation};
  Product down{.x = nullptr,
               .rows = args.x.rows(),
               .cols = inner_width,
               .outputs = {{args.down, args.out.data}},
               .num_outputs = 1,
               .finish = args.add ? Finish::kAdd : Finish::kStore,
               .add = args.add.data,
               .activation = {}};
  const std::int64_t inner_bytes =
      args.x.rows() * inner_width * static_cast<std::int64_t>(dtype_bytes(context.activation));
  context.scratch.begin(Scratch::bytes_of<std::byte>(inner_bytes) +
                        multiply_scratch(context, gated) + multiply_scratch(context, down));
  void* inner = context.scratch.take<std::byte>(inner_bytes);
  gated.outputs[0].out = gated.outputs[1].out = inner;
  down.x = inner;
  multiply(context, gated);
  multiply(context, down);
}

}  // namespace baltoro::cuda
