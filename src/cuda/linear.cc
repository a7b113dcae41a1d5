#include "ops/linear.h"

#include "cuda/context.h"
#include "cuda/product.h"

namespace baltoro::cuda {

void linear(Context& context, const LinearArgs& args) {
  Product product{.x = args.x.data,
                  .rows = args.x.rows(),
                  .cols = args.x.cols(),
                  .outputs = {},
                  .num_outputs = args.num_outputs,
                  .finish = Finish::kStore,
                  .add = nullptr,
                  .activation = {}};
  for (int i = 0; i < args.num_outputs; ++i) {
    const LinearOutput& output = args.outputs[static_cast<std::size_t>(i)];
    product.outputs[i] = {output.weight, output.out.data};
  }
  context.scratch.begin(multiply_scratch(context, product));
  multiply(context, product);
}

}  // namespace baltoro::cuda
