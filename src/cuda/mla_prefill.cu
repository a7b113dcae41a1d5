// Gated MLA of the rows that arrive as prompt.
#include "cuda/mla_parts.h"
#include "cuda/mla_prefill.h"

namespace baltoro::cuda {

void mla_prefill(Context& context, const MlaArgs& args) {
  if (!has_rows_of(args.batch, Origin::kPrompt)) return;
  mla_write_cache(context, args, Origin::kPrompt);
  if (sm90::serves_mla_prefill(context, args)) {
    sm90::mla_prefill(context, args);
  } else {
    mla_attend_plain(context, args, Origin::kPrompt);
  }
}

}  // namespace baltoro::cuda
