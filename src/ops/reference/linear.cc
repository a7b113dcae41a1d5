#include "ops/reference/linear.h"

#include <algorithm>
#include <vector>

#include "ops/reference/matrix.h"

namespace baltoro::reference {

void embed(const EmbedArgs& args, Rounding round) {
  float* out = args.out.f32();
  for (const std::int32_t id : args.ids) {
    decode_weight_row(args.table, id, out);
    std::transform(out, out + args.table.cols, out,
                   [round](float value) { return static_cast<float>(round(value)); });
    out += args.table.cols;
  }
}

void linear(const LinearArgs& args, Rounding round) {
  const std::vector<double> x = to_double(args.x);
  for (int i = 0; i < args.num_outputs; ++i) {
    const LinearOutput& output = args.outputs[static_cast<std::size_t>(i)];
    const std::vector<double> product = multiply(output.weight, x);
    std::transform(product.begin(), product.end(), output.out.f32(),
                   [round](double value) { return static_cast<float>(round(value)); });
  }
}

void head(const HeadArgs& args) {
  const std::int64_t hidden = args.weight.cols;
  std::vector<double> x;
  for (const std::int32_t row : args.rows) {
    const float* begin = args.x.f32() + row * hidden;
    x.insert(x.end(), begin, begin + hidden);
  }
  const std::vector<double> logits = multiply(args.weight, x);
  std::transform(logits.begin(), logits.end(), args.logits,
                 [](double value) { return static_cast<float>(value); });
}

}  // namespace baltoro::reference
