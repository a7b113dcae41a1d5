#include "ops/embed.h"

#include "core/error.h"
#include "core/trace.h"
#include "ops/arg_check.h"

namespace baltoro {

void embed(Backend& backend, const EmbedArgs& args) {
  const ArgCheck check("embed", -1);
  check.weight("table", args.table, args.table.rows, args.table.cols);
  check.that(!args.table.grouped(), "an unquantised table");
  check.view("out", args.out, static_cast<std::int64_t>(args.ids.size()), args.table.cols,
             backend.activation_dtype());
  for (std::size_t row = 0; row < args.ids.size(); ++row) {
    const std::int32_t id = args.ids[row];
    if (id >= 0 && id < args.table.rows) continue;
    fail(ErrorCode::kUsage,
         "embed: token id {} at row {} is outside the vocabulary [0, {}); use ids of this model's "
         "tokenizer",
         id, row, args.table.rows);
  }
  const TraceZone zone("embed", -1);
  backend.embed(args);
}

Cost embed_cost(std::int64_t rows, std::int64_t hidden, WeightFormat format,
                DType activation_dtype) {
  const double values = static_cast<double>(rows) * static_cast<double>(hidden);
  const WeightView row{nullptr, nullptr, format, 1, hidden};
  Cost cost;
  cost.weight_bytes = static_cast<double>(rows) * static_cast<double>(row.bytes());
  cost.activation_bytes = values * static_cast<double>(dtype_bytes(activation_dtype));
  return cost;
}

}  // namespace baltoro
