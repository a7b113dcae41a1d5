// Gated MLA of the rows that arrive as prompt.
#include "cuda/mla_parts.h"

namespace baltoro::cuda {

void mla_prefill(Context& context, const MlaArgs& args) {
  if (!has_rows_of(args.batch, Origin::kPrompt)) return;
  mla_write_cache(context, args, Origin::kPrompt);
  mla_attend_plain(context, args, Origin::kPrompt);
}

}  // namespace baltoro::cuda
